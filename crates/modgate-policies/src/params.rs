//! The objects of a cluster that bindings of its own policies pass.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use modgate_engine::{
    admissionpolicy::{ParamScope, Params, selects},
    api::admissionregistration::ParamKind,
    matching::Selector,
};
use modgate_value::{Str, Value};

/// The watched objects of each kind of parameters.
#[derive(Debug, Clone, Default)]
pub struct WatchedParams(BTreeMap<ParamKind, Watched>);

/// Namespace and name of an object.
type Place = (Str, Str);

#[derive(Debug, Clone, Default)]
struct Watched {
    served: Served,
    /// Whether all objects were seen.
    listed: bool,
    /// Why they cannot be seen, if they were not.
    problem: Option<String>,
    objects: Arc<BTreeMap<Place, Value>>,
}

/// Whether the API server has a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Served {
    /// It has not answered yet.
    #[default]
    Unseen,
    No,
    Yes(ParamScope),
}

impl WatchedParams {
    /// Follows these kinds and no others; returns whether others are gone.
    pub fn want(&mut self, kinds: &BTreeSet<ParamKind>) -> bool {
        let before = self.0.len();
        self.0.retain(|kind, _| kinds.contains(kind));
        let fewer = self.0.len() < before;
        for kind in kinds {
            self.0.entry(kind.clone()).or_default();
        }
        fewer
    }

    /// The kinds that are followed.
    pub fn kinds(&self) -> impl Iterator<Item = &ParamKind> {
        self.0.keys()
    }

    /// All objects.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Value> {
        self.0.values().flat_map(|watched| watched.objects.values())
    }

    /// Whether a kind is followed.
    pub fn wants(&self, kind: &ParamKind) -> bool {
        self.0.contains_key(kind)
    }

    /// Whether each kind has been listed, is not served, or cannot be read.
    pub fn is_settled(&self) -> bool {
        let is_settled =
            |it: &Watched| it.listed || it.served == Served::No || it.problem.is_some();
        self.0.values().all(is_settled)
    }

    /// The API server serves a kind. Returns whether that is news.
    pub fn found(&mut self, kind: &ParamKind, scope: ParamScope) -> bool {
        let served = Served::Yes(scope);
        let Some(watched) = self.0.get_mut(kind) else { return false };
        std::mem::replace(&mut watched.served, served) != served
    }

    /// The API server does not have a kind. Returns whether that is news.
    pub fn missing(&mut self, kind: &ParamKind) -> bool {
        let Some(watched) = self.0.get_mut(kind) else { return false };
        let is_new = watched.served != Served::No;
        *watched = Watched { served: Served::No, ..Watched::default() };
        is_new
    }

    /// The objects of a kind cannot be read for now. What was seen stays. Returns whether that is news.
    pub fn failed(&mut self, kind: &ParamKind, problem: String) -> bool {
        let Some(watched) = self.0.get_mut(kind).filter(|watched| !watched.listed) else {
            return false;
        };
        watched.problem.replace(problem).is_none()
    }

    /// All objects of a kind. Returns whether anything is new.
    pub fn replace(&mut self, kind: &ParamKind, objects: Vec<(Place, Value)>) -> bool {
        let Some(watched) = self.0.get_mut(kind) else { return false };
        let objects: BTreeMap<Place, Value> = objects.into_iter().collect();
        watched.problem = None;
        let was_listed = std::mem::replace(&mut watched.listed, true);
        if was_listed && *watched.objects == objects {
            return false;
        }
        watched.objects = Arc::new(objects);
        true
    }

    /// An object that is new or has changed. Returns whether it differs.
    pub fn insert(&mut self, kind: &ParamKind, place: Place, object: Value) -> bool {
        let Some(watched) = self.0.get_mut(kind) else { return false };
        if watched.objects.get(&place) == Some(&object) {
            return false;
        }
        Arc::make_mut(&mut watched.objects).insert(place, object);
        true
    }

    /// An object that is gone. Returns whether it was there.
    pub fn remove(&mut self, kind: &ParamKind, place: &Place) -> bool {
        let Some(watched) = self.0.get_mut(kind) else { return false };
        watched.objects.contains_key(place)
            && Arc::make_mut(&mut watched.objects).remove(place).is_some()
    }
}

impl Params for WatchedParams {
    /// A kind that is not followed yet belongs to a policy that came a moment ago.
    fn scope(&self, kind: &ParamKind) -> Option<ParamScope> {
        match self.0.get(kind).map(|watched| watched.served) {
            Some(Served::Yes(scope)) => Some(scope),
            Some(Served::No) => None,
            Some(Served::Unseen) | None => Some(ParamScope::Namespaced),
        }
    }

    fn is_synced(&self, kind: &ParamKind) -> bool {
        self.0.get(kind).is_some_and(|it| it.listed && matches!(it.served, Served::Yes(_)))
    }

    fn get(&self, kind: &ParamKind, namespace: &str, name: &str) -> Option<Value> {
        self.0.get(kind)?.objects.get(&(namespace.into(), name.into())).cloned()
    }

    fn list(&self, kind: &ParamKind, namespace: &str, selector: &Selector) -> Vec<Value> {
        let Some(watched) = self.0.get(kind) else { return Vec::new() };
        let from = (Str::from(namespace), Str::default());
        let within = watched.objects.range(from..).take_while(|((of, _), _)| of == namespace);
        within.map(|(_, object)| object).filter(|it| selects(selector, it)).cloned().collect()
    }

    fn version(&self, kind: &ParamKind) -> u64 {
        let mut hash = DefaultHasher::new();
        if let Some(watched) = self.0.get(kind) {
            self.is_synced(kind).hash(&mut hash);
            watched.objects.hash(&mut hash);
        }
        hash.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str) -> ParamKind {
        ParamKind { api_version: "v1".into(), kind: name.into() }
    }

    fn place(namespace: &str, name: &str) -> Place {
        (namespace.into(), name.into())
    }

    #[test]
    fn kinds_settle_one_by_one() {
        let mut params = WatchedParams::default();
        let (maps, gone, shut) = (kind("ConfigMap"), kind("Gone"), kind("Secret"));
        params.want(&[maps.clone(), gone.clone(), shut.clone()].into());
        assert!(!params.is_settled() && !params.is_synced(&maps));
        assert!(params.scope(&maps).is_some(), "not known yet is not unknown");

        assert!(params.found(&maps, ParamScope::Namespaced));
        assert!(!params.is_synced(&maps), "nothing was listed");
        let objects = vec![(place("a", "x"), Value::from(1)), (place("b", "x"), 2.into())];
        assert!(params.replace(&maps, objects.clone()));
        assert!(!params.replace(&maps, objects), "no news");
        assert!(params.is_synced(&maps) && !params.is_settled());

        assert!(params.missing(&gone) && !params.missing(&gone));
        assert!(params.scope(&gone).is_none());
        assert!(params.failed(&shut, "forbidden".into()));
        assert!(params.is_settled() && !params.is_synced(&shut));

        assert_eq!(params.get(&maps, "b", "x"), Some(2.into()));
        let version = params.version(&maps);
        assert!(params.insert(&maps, place("b", "x"), 3.into()));
        assert!(!params.insert(&maps, place("b", "x"), 3.into()));
        assert_ne!(params.version(&maps), version);
        assert!(params.remove(&maps, &place("b", "x")));
        assert!(!params.remove(&maps, &place("b", "x")));
        assert_eq!(params.get(&maps, "b", "x"), None);

        assert!(params.missing(&maps), "its CRD is gone");
        assert_eq!(params.get(&maps, "a", "x"), None);
        assert!(params.want(&BTreeSet::new()) && params.is_settled());
    }

    #[test]
    fn lists_are_of_one_namespace() {
        let mut params = WatchedParams::default();
        let maps = kind("ConfigMap");
        params.want(&[maps.clone()].into());
        let all = ["a/x", "ab/x", "b/x"].map(|text| {
            let (namespace, name) = text.split_once('/').expect("two parts");
            (place(namespace, name), Value::from(text))
        });
        params.replace(&maps, all.into());
        let all = Selector::default();
        assert_eq!(params.list(&maps, "a", &all), ["a/x".into()]);
        assert_eq!(params.list(&maps, "", &all), [] as [Value; 0]);
    }
}
