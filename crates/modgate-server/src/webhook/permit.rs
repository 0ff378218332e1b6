//! An evaluation that waits for another process gives up its slot meanwhile.

use modgate_policies::Permit;
use tokio::time::Instant;

use super::EvaluationSlot;

impl Permit for EvaluationSlot {
    fn pause(&self, deadline: Instant, wait: &mut dyn FnMut()) {
        Self::pause(self, deadline, wait);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, mpsc},
        time::Duration,
    };

    use futures_util::future::BoxFuture;
    use modgate_engine::{
        Host as _, HostError,
        admissionpolicy::{Access, Action},
        modrule::PodBinding,
    };
    use modgate_policies::{ClusterLookup, NotBound, Objects};
    use modgate_value::Value;

    use super::*;
    use crate::webhook::{Evaluators, evaluators::Flow};

    /// A cluster that answers once another evaluation has had a permit.
    #[derive(Debug)]
    struct Slow {
        asked: mpsc::SyncSender<()>,
        answer: std::sync::Mutex<mpsc::Receiver<()>>,
    }

    const TIMEOUT: Duration = Duration::from_secs(20);

    impl ClusterLookup for Slow {
        fn get(&self, kind: &str, name: &str) -> Result<Option<Value>, HostError> {
            self.asked.send(()).expect("the other listens");
            let answer = self.answer.lock().expect("no panic");
            answer
                .recv_timeout(TIMEOUT)
                .map_err(|_| HostError::Unread("no other had a slot".to_owned()))?;
            let members = [("kind", Value::from(kind)), ("name", name.into())];
            Ok(Some(members.into_iter().collect()))
        }

        fn access(&self, _: &Action<'_>) -> Result<Access, HostError> {
            self.asked.send(()).expect("the other listens");
            let answer = self.answer.lock().expect("no panic");
            let unread = |_| HostError::Unread("no other had a slot".to_owned());
            answer.recv_timeout(TIMEOUT).map_err(unread)?;
            Ok(Access { allowed: true, ..Access::default() })
        }

        fn bind<'a>(&'a self, _: &'a PodBinding) -> BoxFuture<'a, Result<(), NotBound>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    fn flow() -> Flow {
        Flow { route: "/validate", namespace: "ns".into() }
    }

    /// There is one permit, and its holder looks up an object in a cluster that does not answer.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn others_go_on_while_the_cluster_is_asked() {
        for kind in ["Namespace", "Node", "authorizer"] {
            let evaluators = Arc::new(Evaluators::new(1));
            let (ask, asked) = mpsc::sync_channel(1);
            let (answer, answered) = mpsc::sync_channel(1);
            let cluster = Slow { asked: ask, answer: answered.into() };
            let objects = Objects::of_cluster(Arc::new(cluster));
            let of_first = Arc::clone(&evaluators);
            let first = tokio::spawn(async move {
                let evaluate = |slot: &EvaluationSlot| {
                    let host = objects.yielding(slot, Instant::now() + TIMEOUT);
                    match kind {
                        "Node" => host.node("a"),
                        "Namespace" => host.namespace("a"),
                        // The second question is the same, and the cluster would not answer again.
                        _ => [(); 2].map(|()| host.authorizer().decide(&Action::default()))[1]
                            .clone()
                            .map(|_| [("kind", Value::from(kind))].into_iter().collect())
                            .map_err(HostError::Unread),
                    }
                };
                of_first.run(flow(), TIMEOUT, evaluate).await
            });
            let asked = tokio::task::spawn_blocking(move || asked.recv_timeout(TIMEOUT));
            asked.await.expect("no panic").expect("the first asks");
            let second =
                evaluators.run(flow(), TIMEOUT, |_| answer.send(()).expect("the first listens"));
            assert_eq!(second.await, Ok(()), "{kind}");
            let found = first.await.expect("no panic").expect("a slot").expect(kind);
            assert_eq!(found.get("kind"), Some(&kind.into()));
        }
    }
}
