//! The loss of a device, and who is to hear of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Whether the device was lost, and who wants to know.
#[derive(Default)]
pub struct Loss(Mutex<(Option<String>, Vec<Weak<Listener>>)>);

/// Is told once when the device is lost.
pub struct Listener(Mutex<Option<OnLost>>);

pub type OnLost = Box<dyn FnOnce(String) + Send>;

/// Nothing that runs under these locks leaves the contents half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener {
    fn notify(&self, message: String) {
        if let Some(notify) = lock(&self.0).take() {
            notify(message);
        }
    }
}

impl Loss {
    pub fn set(&self, message: &str) {
        let listeners = {
            let mut state = lock(&self.0);
            state.0.get_or_insert_with(|| message.to_owned());
            std::mem::take(&mut state.1)
        };
        listeners.iter().filter_map(Weak::upgrade).for_each(|listener| listener.notify(message.to_owned()));
    }

    /// Why the device was lost, if it was.
    pub fn get(&self) -> Option<String> {
        lock(&self.0).0.clone()
    }

    /// Calls back once when the device is lost, or now if it is, as long as the result lives.
    pub fn on_lost(&self, notify: OnLost) -> Arc<Listener> {
        let listener = Arc::new(Listener(Mutex::new(Some(notify))));
        let already = {
            let mut state = lock(&self.0);
            state.1.retain(|other| other.strong_count() > 0);
            state.1.push(Arc::downgrade(&listener));
            state.0.clone()
        };
        if let Some(message) = already {
            listener.notify(message);
        }
        listener
    }

    pub fn message(&self) -> String {
        self.get().unwrap_or_else(|| "the device was lost".to_owned())
    }
}
