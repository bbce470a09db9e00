//! The texts of a pod of a change, together in one string.

use super::pod_parts::PodParts;
use crate::matching::names;

/// Namespace, name, node and labels of a valid pod.
#[derive(Debug, Clone)]
pub struct PodTexts {
    /// Namespace, name, node and labels, in this order.
    all: Box<str>,
    /// The ends of namespace, name and node.
    ends: [u32; 3],
    /// The ends of keys and values of labels, ascending by key.
    labels: Box<[[u32; 2]]>,
}

/// The labels of a pod, ascending by key. Keys and values are valid.
#[derive(Debug, Clone, Copy)]
pub struct Labels<'a> {
    all: &'a str,
    start: u32,
    ends: &'a [[u32; 2]],
}

impl PodTexts {
    /// Returns the texts of a valid pod.
    pub fn of(parts: &PodParts<'_>) -> Self {
        let namespace = match parts.namespace {
            [] => names::DEFAULT_NAMESPACE.as_bytes(),
            namespace => namespace,
        };
        let fixed = [namespace, parts.name, parts.node_name];
        let labels = parts.labels().map(|(key, value)| key.len() + value.len());
        let length = fixed.iter().map(|text| text.len()).sum::<usize>() + labels.sum::<usize>();
        let mut all = Vec::with_capacity(length);
        let mut add = |text: &[u8]| {
            all.extend_from_slice(text);
            u32::try_from(all.len()).expect("a pod of less than 4 GiB")
        };
        let ends = fixed.map(&mut add);
        let labels = parts.labels();
        let labels = labels
            .map(|(key, value)| [key, value].map(&mut add))
            .collect();
        let all = String::from_utf8(all).expect("the parts of a valid pod are texts");
        Self {
            all: all.into(),
            ends,
            labels,
        }
    }

    fn between(&self, start: u32, end: u32) -> &str {
        &self.all[start as usize..end as usize]
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        self.between(0, self.ends[0])
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.between(self.ends[0], self.ends[1])
    }

    /// The node that it is on; empty if it is on none.
    pub fn node_name(&self) -> &str {
        self.between(self.ends[1], self.ends[2])
    }

    /// The labels.
    pub fn labels(&self) -> Labels<'_> {
        Labels {
            all: &self.all,
            start: self.ends[2],
            ends: &self.labels,
        }
    }
}

impl<'a> Labels<'a> {
    /// Keys and values.
    pub fn texts(self) -> impl ExactSizeIterator<Item = (&'a str, &'a str)> + Clone {
        let Self { all, mut start, .. } = self;
        self.ends.iter().map(move |[key, value]| {
            let begin = std::mem::replace(&mut start, *value) as usize;
            let (key, value) = (*key as usize, *value as usize);
            (&all[begin..key], &all[key..value])
        })
    }

    /// Keys and values as bytes.
    pub fn bytes(self) -> impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])> + Clone {
        self.texts()
            .map(|(key, value)| (key.as_bytes(), value.as_bytes()))
    }
}
