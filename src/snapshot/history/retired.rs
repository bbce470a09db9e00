//! Old states and snapshots, kept until their last reader is done.
//!
//! Dropping a large state takes seconds. A decision holds the state that it reads, but must not be
//! the one that drops it: decisions run on threads that serve connections. So a state that is
//! replaced is put here. The writer that replaced it drops it, or the next sweep if a decision
//! still reads it.

use std::sync::Arc;

use parking_lot::Mutex;

/// The retired states or snapshots.
#[derive(Debug)]
pub(in crate::snapshot) struct Retired<T>(Mutex<Vec<Arc<T>>>);

impl<T> Default for Retired<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Retired<T> {
    /// Adds a value that cannot be found any more, and drops all without a reader.
    pub(in crate::snapshot) fn add(&self, gone: Arc<T>) {
        self.0.lock().push(gone);
        self.drop_unread();
    }

    /// Drops all without a reader, with no lock held.
    pub(in crate::snapshot) fn drop_unread(&self) {
        // A retired value cannot be found again, so a count of one does not grow.
        let is_unread = |gone: &mut Arc<T>| Arc::strong_count(gone) == 1;
        let unread: Vec<_> = self.0.lock().extract_if(.., is_unread).collect();
        drop(unread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports the thread in which it is dropped.
    struct DropTeller(std::sync::mpsc::Sender<std::thread::ThreadId>);

    impl Drop for DropTeller {
        fn drop(&mut self) {
            // Sending fails if the test is over.
            let _ = self.0.send(std::thread::current().id());
        }
    }

    #[test]
    fn a_reader_never_drops_what_it_read() {
        let (tell, told) = std::sync::mpsc::channel();
        let retired = Retired::default();
        let (unread, read) = (
            Arc::new(DropTeller(tell.clone())),
            Arc::new(DropTeller(tell)),
        );
        let reader = Arc::clone(&read);
        retired.add(unread);
        assert_eq!(told.try_recv(), Ok(std::thread::current().id()), "at once");
        retired.add(read);
        let reading = std::thread::spawn(move || drop(reader));
        reading.join().expect("it does not panic");
        assert!(told.try_recv().is_err(), "not by the reader");
        retired.drop_unread();
        assert_eq!(told.try_recv(), Ok(std::thread::current().id()));
    }
}
