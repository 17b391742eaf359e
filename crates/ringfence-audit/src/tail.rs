//! Finds the end of the chain by the head, and resolves disagreement between head, intake and database.

use ringfence_spec::Problem;

use crate::compaction;
use crate::errors;
use crate::head::{self, ChainPosition, Head, Mark};
use crate::line::Line;
use crate::store::{GapBody, Store, Tail};

impl Store {
    /// The end of the chain. Usually one read of the head and one check of the intake's length. Tampering comes back as
    /// a gap, which the caller must append to the chain.
    pub(crate) fn tail(&mut self) -> Result<(Tail, Option<GapBody>), Problem> {
        let bytes = self.intake_bytes()?;
        let head = match self.genuine_head()? {
            Ok(head) => head,
            Err(why) => return self.tail_by_rows(why),
        };
        let tail = Tail { mark: head.at, epoch: head.epoch, folded: head.folded };
        if bytes == head.at.intake_bytes {
            return self.before_the_way(&head, tail);
        }
        if let Some(to) = head.going_to {
            // The writer died after its rows and before its second head, which is written now: a compaction would make the
            // intake as short as it was before the rows.
            if bytes == to.intake_bytes && self.last_place()? == Some(to.place) {
                let key = *self.secret_of(head.epoch)?.mac_key();
                self.write_head(Head::new(to, head.folded, head.epoch, &self.boot).signed(&key))?;
                return Ok((Tail { mark: to, ..tail }, None));
            }
            if bytes > head.at.intake_bytes && bytes < to.intake_bytes {
                // The writer died amid its rows, none of which was acknowledged.
                self.cut_intake(head.at.intake_bytes)?;
                return self.before_the_way(&head, tail);
            }
        }
        if bytes < head.at.intake_bytes {
            return self.shorter_than_known(tail, bytes);
        }
        self.longer_than_known(&head, tail, bytes)
    }

    /// The chain ends where the head says it was before the last append.
    fn before_the_way(
        &mut self,
        head: &Head,
        tail: Tail,
    ) -> Result<(Tail, Option<GapBody>), Problem> {
        if head.going_to.is_none() {
            return Ok((tail, None));
        }
        // The head names the epoch it was moving to; the row it stands at may belong to the previous one.
        let lines = self.intake_lines()?;
        let epoch = match lines.last() {
            Some(line) => line.epoch,
            None => self.database_tail()?.map_or(tail.epoch, |(_, epoch)| epoch),
        };
        Ok((Tail { epoch, ..tail }, None))
    }

    /// A compaction died before writing its head, or lines were removed.
    fn shorter_than_known(
        &mut self,
        tail: Tail,
        bytes: u64,
    ) -> Result<(Tail, Option<GapBody>), Problem> {
        let folded = self.database_tail()?.map_or(0, |(place, _)| place.seq);
        if bytes == 0 && folded >= tail.mark.place.seq {
            let mark = Mark { intake_bytes: 0, ..tail.mark };
            return Ok((Tail { mark, folded: tail.mark.place.seq, ..tail }, None));
        }
        // The chain continues from the position in the head, so that the hole stays visible.
        let whole = self.whole_lines_bytes()?;
        self.cut_intake(whole)?;
        let found = self.last_place()?.unwrap_or(ChainPosition { seq: folded, ..tail.mark.place });
        let mark = Mark { intake_bytes: whole, ..tail.mark };
        let gap = GapBody { why: "truncated".to_owned(), head: Some(tail.mark.place), found };
        Ok((Tail { mark, ..tail }, Some(gap)))
    }

    /// Lines the head does not know. After a reboot the head may simply be the older of the two.
    fn longer_than_known(
        &mut self,
        head: &Head,
        tail: Tail,
        bytes: u64,
    ) -> Result<(Tail, Option<GapBody>), Problem> {
        let known = head.at.intake_bytes;
        if head.boot != self.boot {
            let (mark, epoch) = self.follow_lines(tail)?;
            self.cut_intake(mark.intake_bytes)?;
            return Ok((Tail { mark, epoch, ..tail }, None));
        }
        let found = self.last_place()?.unwrap_or(tail.mark.place);
        self.set_aside(known, bytes)?;
        self.cut_intake(known)?;
        let gap = GapBody { why: "inserted".to_owned(), head: Some(tail.mark.place), found };
        Ok((tail, Some(gap)))
    }

    /// Finds the end by the rows, because the head is missing or forged.
    fn tail_by_rows(&mut self, why: &str) -> Result<(Tail, Option<GapBody>), Problem> {
        let whole = self.whole_lines_bytes()?;
        self.cut_intake(whole)?;
        let in_database = self.database_tail()?;
        let folded = in_database.map_or(0, |(place, _)| place.seq);
        let last = self
            .intake_lines()?
            .last()
            .map(|line| (ChainPosition { seq: line.seq, chain: line.chain }, line.epoch));
        let gone = || errors::corrupt(self.home.path(), "all rows are gone");
        let (place, epoch) = last.or(in_database).ok_or_else(gone)?;
        self.refuse_foreign_key(epoch)?;
        let head = Head::read(&self.head).map(|head| head.at.place);
        let mark = Mark { place, intake_bytes: whole };
        let gap = GapBody { why: why.to_owned(), head, found: place };
        Ok((Tail { mark, epoch, folded }, Some(gap)))
    }

    /// The head, or the reason it is unusable. A head identical to the one this store wrote is not checked again.
    fn genuine_head(&mut self) -> Result<Result<Head, &'static str>, Problem> {
        let content = head::content(&self.head).unwrap_or_default();
        if let Some((bytes, head)) = &self.own_head
            && *bytes == content
        {
            return Ok(Ok(head.clone()));
        }
        let Some(head) = Head::parse(&content) else { return Ok(Err("head_missing")) };
        // By the head's own epoch: a crash before the first row of a new epoch leaves a head under its key.
        let is_genuine = head.is_genuine(self.secret_of(head.epoch)?.mac_key());
        Ok(if is_genuine { Ok(head) } else { Err("head_forged") })
    }

    /// Refuses a key that the chain does not know: signing with it would make honest rows look forged.
    fn refuse_foreign_key(&mut self, epoch: i64) -> Result<(), Problem> {
        let in_intake =
            self.intake_lines()?.iter().rev().find_map(|l| compaction::key_of(l, epoch));
        let announced = match in_intake {
            Some(key) => Some(key),
            None => self.database_key(epoch)?,
        };
        if announced == Some(self.secret_of(epoch)?.public()) {
            return Ok(());
        }
        let cause = format!("the signing key on disk is not the one of epoch {epoch}");
        Err(errors::corrupt(self.home.path(), cause))
    }

    /// The end of the lines after `tail` that continue the chain, and its epoch.
    fn follow_lines(&self, tail: Tail) -> Result<(Mark, i64), Problem> {
        let (mut mark, mut epoch) = (tail.mark, tail.epoch);
        let text = self.intake_text()?;
        let start = usize::try_from(mark.intake_bytes).unwrap_or(0).min(text.len());
        for line in text[start..].split_inclusive(|b| *b == b'\n') {
            let Ok(row) = serde_json::from_slice::<Line>(line) else { break };
            if row.seq != mark.place.seq + 1 || !row.follows(&mark.place.chain) {
                break;
            }
            let place = ChainPosition { seq: row.seq, chain: row.chain };
            mark = Mark { place, intake_bytes: mark.intake_bytes + line.len() as u64 };
            epoch = row.epoch;
        }
        Ok((mark, epoch))
    }

    fn last_place(&self) -> Result<Option<ChainPosition>, Problem> {
        let lines = self.intake_lines()?;
        Ok(lines.last().map(|line| ChainPosition { seq: line.seq, chain: line.chain }))
    }

    fn whole_lines_bytes(&self) -> Result<u64, Problem> {
        let text = self.intake_text()?;
        let end = text.iter().rposition(|b| *b == b'\n').map_or(0, |last| last + 1);
        Ok(end as u64)
    }

    fn intake_bytes(&self) -> Result<u64, Problem> {
        let meta = self.intake.metadata();
        meta.map(|meta| meta.len()).map_err(|e| errors::from_io(self.home.path(), "fstat", &e))
    }

    fn cut_intake(&self, bytes: u64) -> Result<(), Problem> {
        self.intake.set_len(bytes).map_err(|e| errors::from_io(self.home.path(), "ftruncate", &e))
    }

    /// The lines of the intake that can be read.
    pub(crate) fn intake_lines(&self) -> Result<Vec<Line>, Problem> {
        Ok(compaction::lines(&self.intake_text()?).flatten().collect())
    }

    pub(crate) fn intake_text(&self) -> Result<Vec<u8>, Problem> {
        compaction::read_all(&self.intake)
            .map_err(|e| errors::from_io(self.home.path(), "read", &e))
    }

    /// Saves a part of the intake that does not belong, for inspection.
    pub(crate) fn set_aside(&self, from: u64, to: u64) -> Result<(), Problem> {
        let text = self.intake_text()?;
        let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(text.len());
        let name = format!("set-aside-{}", crate::entry::now_ms());
        self.home.write_atomically(&name, &text[at(from)..at(to)])
    }
}

#[cfg(test)]
#[path = "tail_tests.rs"]
mod tests;
