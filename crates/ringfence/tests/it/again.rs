//! As root everything above has run once; here it runs again as nobody in particular.

use crate::support::again_as_an_ordinary_user;

#[test]
fn everything_again_as_an_ordinary_user() {
    again_as_an_ordinary_user();
}
