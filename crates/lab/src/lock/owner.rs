//! Who holds a lock, as its file tells.

use std::fmt;

use engine::host;

/// A process on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The machine's name, for people.
    pub host: String,
    /// The boot of its kernel, which tells machines apart; empty where unknown.
    pub boot: String,
    /// Its number.
    pub process: u32,
    /// The space that the number belongs to, since containers count their own.
    pub space: String,
    /// When it began, in ticks of its machine: numbers are used again.
    pub started: String,
}

impl Owner {
    /// This process.
    pub fn this() -> Owner {
        let process = std::process::id();
        Owner {
            host: host::name(),
            boot: host::boot().into(),
            process,
            space: space(),
            started: started(process).unwrap_or_default(),
        }
    }

    /// Whether it runs under the same kernel as another: then the kernel's own locks are between them.
    pub fn shares_kernel(&self, other: &Owner) -> bool {
        !self.boot.is_empty() && self.boot == other.boot
    }

    /// Whether it is running, where that can be told at all: in the same space of the same kernel.
    pub fn is_running(&self, seen_from: &Owner) -> Option<bool> {
        let near = self.shares_kernel(seen_from) && !self.space.is_empty() && self.space == seen_from.space;
        let known = near && !self.started.is_empty();
        known.then(|| started(self.process).as_ref() == Some(&self.started))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.process, self.host)
    }
}

/// Which space of process numbers this is.
fn space() -> String {
    let space = std::fs::read_link("/proc/self/ns/pid");
    space.map_or_else(|_| String::new(), |space| space.to_string_lossy().into_owned())
}

/// When a process of this machine began; `None` where there is none of that number, or no way to tell.
fn started(process: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is a name in parentheses and may hold anything; the state is the third, this the 22nd.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ended = matches!(fields.first(), Some(&("Z" | "X")));
    fields.get(19).filter(|_| !ended).map(|ticks| ticks.to_string())
}

/// What the file of a lock says. Always as many bytes for one owner, so that it is written over in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// Held, so many beats after it was taken.
    Held(Owner, u64),
    /// Given back.
    Free,
    /// Nothing that can be read: half-written, or not ours.
    Unknown,
}

const FREE: &str = "free";

impl Note {
    /// As it is written.
    pub fn text(owner: &Owner, beat: u64) -> String {
        let Owner { boot, space, started, .. } = owner;
        format!("{owner}\nboot {boot}\nspace {space}\nstarted {started}\nbeat {beat:020}\n")
    }

    /// What takes its place when the lock is given back.
    pub fn free(owner: &Owner) -> String {
        format!("{FREE:<width$}\n", width = Note::text(owner, 0).len() - 1)
    }

    /// Reads one.
    pub fn parse(text: &str) -> Note {
        if text.trim() == FREE {
            return Note::Free;
        }
        Note::held(text).unwrap_or(Note::Unknown)
    }

    fn held(text: &str) -> Option<Note> {
        let mut lines = text.lines();
        let (process, host) = lines.next()?.strip_prefix("process ")?.split_once(" on ")?;
        let mut field = |name: &str| Some(lines.next()?.strip_prefix(name)?.trim().to_string());
        let (boot, space) = (field("boot")?, field("space")?);
        let (started, beat) = (field("started")?, field("beat")?);
        let process = process.parse().ok()?;
        Some(Note::Held(Owner { host: host.into(), boot, process, space, started }, beat.parse().ok()?))
    }

    /// Who is named, if anybody is.
    pub fn owner(self) -> Option<Owner> {
        match self {
            Note::Held(owner, _) => Some(owner),
            _ => None,
        }
    }
}
