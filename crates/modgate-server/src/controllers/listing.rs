//! The kinds of a cluster that can be listed, and their objects, page by page (AU-4, AU-5).

use kube::{
    Api, Client, Discovery,
    api::{ApiResource, ListParams},
    discovery::verbs,
};
use modgate_engine::api::meta::GroupVersionKind;

use super::{kinds, object::Stored};

/// A kind that can be listed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Listable {
    pub(crate) resource: ApiResource,
    /// Whether it can be watched, too.
    pub(crate) watchable: bool,
}

impl Listable {
    pub(crate) fn kind(&self) -> GroupVersionKind {
        kinds::gvk(&self.resource)
    }
}

/// Every kind that can be listed, in the version its group prefers. A kind that several groups serve
/// is there for each of them (AU-5). Groups whose servers do not answer are left out.
pub(crate) async fn listable(client: &Client) -> Result<Vec<Listable>, kube::Error> {
    let found = match Discovery::new(client.clone()).run_aggregated().await {
        Ok(found) => found,
        // An API server that cannot say it all at once.
        Err(_) => Discovery::new(client.clone()).run().await?,
    };
    let mut all = Vec::new();
    for group in found.groups_alphabetical() {
        let version = group.preferred_version_or_latest();
        for (resource, capabilities) in group.versioned_resources(version) {
            if capabilities.supports_operation(verbs::LIST) {
                let watchable = capabilities.supports_operation(verbs::WATCH);
                all.push(Listable { resource, watchable });
            }
        }
    }
    Ok(all)
}

/// The objects of one kind, page by page.
pub(crate) struct Pages {
    api: Api<Stored>,
    resource: ApiResource,
    parameters: ListParams,
    done: bool,
}

impl Pages {
    /// Nothing is asked for yet. A page has `chunk` objects; with 0, there is one page.
    pub(crate) fn new(client: &Client, resource: &ApiResource, chunk: u32) -> Self {
        let parameters = ListParams::default();
        let parameters = if chunk == 0 { parameters } else { parameters.limit(chunk) };
        Self {
            api: Api::all_with(client.clone(), resource),
            resource: resource.clone(),
            parameters,
            done: false,
        }
    }

    /// The next page; `None` when there is none.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Stored>>, kube::Error> {
        if self.done {
            return Ok(None);
        }
        let page = self.api.list(&self.parameters).await?;
        let token = page.metadata.continue_.filter(|token| !token.is_empty());
        self.done = token.is_none();
        self.parameters.continue_token = token;
        let objects = page.items.into_iter().map(|stored| stored.of_kind(&self.resource));
        Ok(Some(objects.collect()))
    }
}
