//! Changes of a file that are kept in memory, so that it can be read when there is no room to
//! write.

use std::collections::BTreeMap;
use std::io;

use redb::StorageBackend;

/// Size in bytes of the blocks in which changes are kept.
const BLOCK: usize = 4_096;

/// The changes of a file, which itself is never written to.
#[derive(Debug)]
pub(super) struct Unwritten {
    /// The length of the file with the changes.
    pub len: u64,
    /// The length of the part of the file itself that remains.
    kept: u64,
    blocks: BTreeMap<u64, Box<[u8; BLOCK]>>,
}

impl Unwritten {
    /// An empty set of changes to a file of this length.
    pub fn of(len: u64) -> Self {
        Self {
            len,
            kept: len,
            blocks: BTreeMap::new(),
        }
    }

    /// Changes the length.
    pub fn set_len(&mut self, len: u64) {
        self.kept = self.kept.min(len);
        let first_gone = len.div_ceil(BLOCK as u64);
        self.blocks.split_off(&first_gone);
        if let (Some(block), rest @ 1..) =
            (self.blocks.get_mut(&(len / BLOCK as u64)), at_in_block(len))
        {
            block[rest..].fill(0);
        }
        self.len = len;
    }

    /// Reads the file with the changes.
    pub fn read(&self, file: &impl StorageBackend, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset + out.len() as u64 > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (at, part) in parts(offset, out.len()) {
            let out = &mut out[part];
            match self.blocks.get(&(at / BLOCK as u64)) {
                Some(block) => {
                    let start = at_in_block(at);
                    out.copy_from_slice(&block[start..start + out.len()]);
                }
                None => self.read_kept(file, at, out)?,
            }
        }
        Ok(())
    }

    /// Changes the content.
    pub fn write(
        &mut self,
        file: &impl StorageBackend,
        offset: u64,
        data: &[u8],
    ) -> io::Result<()> {
        for (at, part) in parts(offset, data.len()) {
            let number = at / BLOCK as u64;
            if !self.blocks.contains_key(&number) {
                let mut block = Box::new([0; BLOCK]);
                self.read_kept(file, number * BLOCK as u64, &mut block[..])?;
                self.blocks.insert(number, block);
            }
            let (data, start) = (&data[part], at_in_block(at));
            if let Some(block) = self.blocks.get_mut(&number) {
                block[start..start + data.len()].copy_from_slice(data);
            }
        }
        self.len = self.len.max(offset + data.len() as u64);
        Ok(())
    }

    /// Reads the remaining file, and zeros beyond its end.
    fn read_kept(&self, file: &impl StorageBackend, at: u64, out: &mut [u8]) -> io::Result<()> {
        let left = self.kept.saturating_sub(at).min(out.len() as u64);
        let left = usize::try_from(left).unwrap_or(out.len());
        if left > 0 {
            file.read(at, &mut out[..left])?;
        }
        out[left..].fill(0);
        Ok(())
    }
}

fn at_in_block(at: u64) -> usize {
    (at % BLOCK as u64) as usize
}

/// Splits a range into parts of one block each: the offset of each part, and its place in the
/// range.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let size = (BLOCK - at_in_block(at)).min(len - done);
        let part = done..done + size;
        done += size;
        (size > 0).then_some((at, part))
    })
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    /// The file with its changes always reads like a file that was written to.
    #[test]
    fn it_reads_as_if_it_was_written() {
        let (file, model) = (InMemoryBackend::new(), InMemoryBackend::new());
        let bytes: Vec<u8> = (0..20_000).map(|i| (i % 251) as u8).collect();
        for disk in [&file, &model] {
            disk.set_len(20_000).expect("it is in memory");
            disk.write(0, &bytes).expect("it is in memory");
        }
        let mut unwritten = Unwritten::of(20_000);
        let mut random = fastrand::Rng::with_seed(7);
        for step in 0..500 {
            if step % 10 == 0 {
                let len = random.u64(1..40_000);
                unwritten.set_len(len);
                model.set_len(len).expect("it is in memory");
            }
            let len = unwritten.len;
            let at = random.u64(..len);
            let size = random.u64(..=(len - at).min(9_000)) as usize;
            let data: Vec<u8> = (0..size).map(|_| random.u8(..)).collect();
            unwritten.write(&file, at, &data).expect("it is in memory");
            model.write(at, &data).expect("it is in memory");
            let mut read = [vec![0; len as usize], vec![0; len as usize]];
            unwritten.read(&file, 0, &mut read[0]).expect("it is there");
            model.read(0, &mut read[1]).expect("it is there");
            assert!(read[0] == read[1], "after step {step}");
        }
        let mut first = vec![0; 20_000];
        file.read(0, &mut first).expect("it is there");
        assert_eq!(first, bytes, "the file itself stays as it is");
    }
}
