//! A transaction at a node.

use crate::sessions::place::NIL;
use crate::sessions::reply_credit::Replies;
use crate::{MethodClass, NodeIndex, Proof};
use core::net::SocketAddr;
use wire::Time;

/// As many nodes that an INVITE has left are remembered: more than may go down with it.
const LEFT: usize = 6;
/// Nodes of an INVITE that never get it again.
pub(crate) const MOST_BARRED: usize = 3;

/// A node that an INVITE has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Left {
    node: NodeIndex,
    /// It was down then, not only silent or without a way to it.
    down: bool,
}

/// Where an INVITE outside a dialog has been.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trail {
    /// The nodes that it has left for another one: the last few.
    left: [Option<Left>; LEFT],
    /// Nodes from which it was taken with a CANCEL, or that refused it: they would take it for the same,
    /// which is over.
    barred: [Option<NodeIndex>; MOST_BARRED],
}

impl Trail {
    /// Another node has it than this one, which was down or not.
    pub fn leave(&mut self, node: NodeIndex, down: bool) {
        let known = self.left.iter_mut().flatten().find(|left| left.node == node);
        match known {
            Some(left) => left.down |= down,
            None => {
                self.left.rotate_right(1);
                self.left[0] = Some(Left { node, down });
            }
        }
    }

    /// How many of the nodes that it has left, but this one, were down then or are by now.
    pub fn fallen(&self, but: NodeIndex, down: impl Fn(NodeIndex) -> bool) -> usize {
        let left = self.left.iter().flatten().filter(|left| left.node != but);
        left.filter(|left| left.down || down(left.node)).count()
    }

    /// It never goes to this node again.
    pub fn bar(&mut self, node: NodeIndex) {
        if !self.is_barred(node) {
            self.barred.rotate_right(1);
            self.barred[0] = Some(node);
        }
    }

    /// Whether it was taken from this node with a CANCEL, or refused by it.
    pub fn is_barred(&self, node: NodeIndex) -> bool {
        self.barred.contains(&Some(node))
    }

    /// Those nodes.
    pub fn barred(&self) -> impl Iterator<Item = NodeIndex> {
        self.barred.iter().copied().flatten()
    }
}

/// What is known of a request that nothing came back for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Delivery {
    /// It has been said once that nothing came back.
    pub missed: bool,
    /// The network brought it back, or its node says nothing at all.
    pub returned: bool,
    /// It may have been read by a node to which its connection ended.
    pub read: bool,
}

/// A transaction at a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Txn {
    /// What it is known by.
    pub id: u64,
    /// The method, as far as it matters.
    pub class: MethodClass,
    /// An INVITE outside a dialog: only of these the silence counts, as a proxy answers them at once.
    pub fresh: bool,
    /// Who has it.
    pub node: NodeIndex,
    /// Not finished: it counts.
    pub open: bool,
    /// Something has come back for it.
    pub heard: bool,
    /// An INVITE outside a dialog of which some node has said something provisional, be it another one than
    /// the one that has it by now: its sender no longer repeats it, and some node may still answer it.
    pub rang: bool,
    /// Something that shows work has come back.
    pub worked: bool,
    /// Whether it arrived, where nothing has.
    pub delivery: Delivery,
    /// Its sender has cancelled it.
    pub cancelled: bool,
    /// It came with a token, or there are none.
    pub sealed: bool,
    /// It goes over a stream where its node may have one.
    pub large: bool,
    /// It goes to nodes over TLS alone.
    pub secure: bool,
    /// Where its responses go, if that was said when it came for the first time.
    pub back: Option<SocketAddr>,
    /// What has gone there.
    pub replies: Replies,
    /// Where it has been.
    pub trail: Trail,
    /// When it was first forwarded.
    pub began: Time,
    /// When it is given up, or forgotten.
    pub until: Time,
    /// The next one of its call.
    pub(super) next: u32,
}

impl Txn {
    /// A transaction that is forwarded now for the first time.
    pub fn new(now: Time, id: u64, class: MethodClass, node: NodeIndex, until: Time) -> Txn {
        Txn {
            id,
            class,
            fresh: false,
            node,
            open: true,
            heard: false,
            rang: false,
            worked: false,
            delivery: Delivery::default(),
            cancelled: false,
            sealed: false,
            large: false,
            secure: false,
            back: None,
            replies: Replies::new(0, Proof::None, false),
            trail: Trail::default(),
            began: now,
            until,
            next: NIL,
        }
    }
}
