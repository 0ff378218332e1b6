//! Templates that feed each other in a circle (5.2).

use std::collections::BTreeSet;

/// The nodes of a graph that lie on a cycle: those whose strongly connected component has more
/// than one node. `edges[n]` are the successors of node `n`.
///
/// Tarjan's algorithm with a stack of its own, so that a long chain of templates is no deep
/// recursion.
pub(super) fn on_cycles(edges: &[Vec<usize>]) -> BTreeSet<usize> {
    let mut search = Search { nodes: vec![Node::default(); edges.len()], ..Search::default() };
    for start in 0..edges.len() {
        if search.nodes.get(start).is_some_and(|node| node.number == 0) {
            search.from(start, edges);
        }
    }
    search.found
}

#[derive(Default)]
struct Search {
    nodes: Vec<Node>,
    visited: usize,
    /// Nodes whose component is not complete yet.
    open: Vec<usize>,
    found: BTreeSet<usize>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    /// When it was visited, from 1.
    number: usize,
    /// The smallest number known to be reachable within the component.
    low: usize,
    is_open: bool,
}

impl Search {
    fn from(&mut self, start: usize, edges: &[Vec<usize>]) {
        // Nodes on the way, each with how many of its edges have been followed.
        let mut way = vec![(start, 0)];
        self.enter(start);
        while let Some((node, followed)) = way.last_mut() {
            let node = *node;
            let next = edges.get(node).and_then(|successors| successors.get(*followed)).copied();
            *followed += 1;
            match next.map(|next| (next, self.nodes.get(next).copied().unwrap_or_default())) {
                Some((next, Node { number: 0, .. })) => {
                    self.enter(next);
                    way.push((next, 0));
                }
                Some((_, Node { number, is_open: true, .. })) => self.lower(node, number),
                Some(_) => {}
                None => {
                    way.pop();
                    self.leave(node);
                    if let (Some((parent, _)), Some(done)) = (way.last(), self.nodes.get(node)) {
                        let (parent, low) = (*parent, done.low);
                        if done.is_open {
                            self.lower(parent, low);
                        }
                    }
                }
            }
        }
    }

    fn enter(&mut self, node: usize) {
        self.visited += 1;
        if let Some(entered) = self.nodes.get_mut(node) {
            *entered = Node { number: self.visited, low: self.visited, is_open: true };
        }
        self.open.push(node);
    }

    fn lower(&mut self, node: usize, number: usize) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.low = node.low.min(number);
        }
    }

    /// Takes a component off the stack when `node` was the first one of it.
    fn leave(&mut self, node: usize) {
        if self.nodes.get(node).is_none_or(|node| node.low != node.number) {
            return;
        }
        let Some(at) = self.open.iter().rposition(|open| *open == node) else { return };
        let component = self.open.split_off(at);
        for member in &component {
            if let Some(member) = self.nodes.get_mut(*member) {
                member.is_open = false;
            }
        }
        if component.len() > 1 {
            self.found.extend(component);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(edges: &[&[usize]], expected: &[usize]) {
        let edges: Vec<Vec<usize>> = edges.iter().map(|to| to.to_vec()).collect();
        assert_eq!(on_cycles(&edges).into_iter().collect::<Vec<_>>(), expected, "{edges:?}");
    }

    #[test]
    fn cycles() {
        check(&[], &[]);
        check(&[&[1], &[2], &[]], &[]);
        check(&[&[1], &[0]], &[0, 1]);
        // One that leads into a cycle and one that a cycle leads to are not part of it.
        check(&[&[1], &[2], &[3], &[1, 4], &[]], &[1, 2, 3]);
        // Two cycles, one after the other.
        check(&[&[1], &[0, 2], &[3], &[2]], &[0, 1, 2, 3]);
        // A diamond is no cycle.
        check(&[&[1, 2], &[3], &[3], &[]], &[]);
        check(&[&[1, 2], &[3], &[3], &[0]], &[0, 1, 2, 3]);
    }

    #[test]
    fn long_chains() {
        let mut edges: Vec<Vec<usize>> = (1..100_000).map(|next| vec![next]).collect();
        edges.push(Vec::new());
        assert!(on_cycles(&edges).is_empty());
        edges[99_999].push(0);
        assert_eq!(on_cycles(&edges).len(), 100_000);
    }
}
