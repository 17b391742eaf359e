//! placeholder
use crate::CannotTry;
use crate::soak::Findings;
use crate::soak::world::World;
pub(crate) fn soak(_: &World, _: u32) -> Result<Findings, CannotTry> {
    Err("not yet".into())
}
