//! Values made by the first caller that needs them.

use std::sync::OnceLock;

/// Returns the value, made if there is none. Of two threads that make it at once, the second drops its own.
pub(crate) fn get_or_try_init<T, E>(
    cell: &OnceLock<T>,
    make: impl FnOnce() -> Result<T, E>,
) -> Result<&T, E> {
    if let Some(value) = cell.get() {
        return Ok(value);
    }
    let made = make()?;
    Ok(cell.get_or_init(|| made))
}
