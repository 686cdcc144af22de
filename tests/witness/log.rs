//! A log in memory that signs whatever it is told: two histories, too.

use capgate_registry::keys::SigningKey;
use capgate_registry::log::Checkpoint;
use capgate_registry::merkle::{Frontier, Hash, MemoryTree, leaf_hash, prove_consistency, root};
use capgate_registry::note::{Note, NoteKey, Origin, sign};
use capgate_registry::witness::{Request, WitnessKey, parse_answer};

pub const NAME: &str = "log.test/gpu";

/// A TEST key.
pub fn key() -> SigningKey {
    SigningKey::from_seed(NAME, [77; 32]).unwrap()
}

/// One history.
#[derive(Clone, Default)]
pub struct Log {
    entries: Vec<Vec<u8>>,
}

impl Log {
    pub fn push(&mut self, entry: &str) {
        self.entries.push(entry.as_bytes().to_vec());
    }

    pub fn size(&self) -> u64 {
        self.entries.len() as u64
    }

    fn tree(&self) -> MemoryTree {
        self.entries.iter().map(|entry| leaf_hash(entry)).collect()
    }

    pub fn root(&self, size: u64) -> Hash {
        root(&self.tree(), size).unwrap()
    }

    /// The text of the checkpoint of its first entries.
    pub fn text(&self, size: u64) -> String {
        Checkpoint { origin: Origin::parse(NAME).unwrap(), size, root: self.root(size) }.to_text()
    }

    pub fn signed(&self, size: u64) -> Vec<u8> {
        sign(&self.text(size), &[&key()]).unwrap()
    }

    /// The body of a request.
    pub fn request(&self, old: u64, size: u64) -> Vec<u8> {
        let proof = prove_consistency(&self.tree(), old, size).unwrap();
        Request::encode(old, &proof, &self.signed(size))
    }

    /// Whether this is a history of which the other is a beginning.
    pub fn begins_with(&self, size: u64, other: Hash) -> bool {
        let mut frontier = Frontier::new();
        self.entries.iter().take(usize::try_from(size).unwrap()).for_each(|e| frontier.push(leaf_hash(e)));
        frontier.size() == size && frontier.root() == other
    }
}

/// Whether an answer is a cosignature of that text by that witness.
pub fn is_cosigned(answer: &str, text: &str, witness: &str) -> bool {
    let witness: WitnessKey = witness.parse().unwrap();
    let Ok(lines) = parse_answer(answer.as_bytes()) else { return false };
    let note = Note::parse(format!("{text}\n{answer}").as_bytes()).unwrap();
    assert_eq!(note.text(), text);
    lines.len() == 1 && witness.verifies(text, lines[0].bytes()) && note.verify(&[witness], 1).is_ok()
}
