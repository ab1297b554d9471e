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
    /// What its machine keeps from boot to boot; empty where unknown.
    pub installation: String,
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
            installation: host::installation(),
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

    /// Whether it belonged to the same machine before that was booted again, as far as names go.
    pub fn is_of_earlier_boot(&self, now: &Owner) -> bool {
        let known = !self.boot.is_empty() && !now.boot.is_empty() && !self.installation.is_empty();
        known && self.installation == now.installation && self.boot != now.boot
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
    /// Held.
    Held(Held),
    /// Given back.
    Free,
    /// Nothing that can be read: half-written, or not ours.
    Unknown,
}

/// A lock that somebody has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub owner: Owner,
    /// Beats since it was taken.
    pub beat: u64,
    /// The file whose kernel's lock its owner has, too; empty where there is none.
    pub kernel: String,
}

const FREE: &str = "free";

impl Held {
    /// As it is written. What earlier versions did not know comes last, where they do not look.
    pub fn text(&self) -> String {
        let Held { owner, beat, kernel } = self;
        let Owner { boot, space, started, installation, .. } = owner;
        format!(
            "{owner}\nboot {boot}\nspace {space}\nstarted {started}\nbeat {beat:020}\nkernel {kernel}\n\
             installation {installation}\n"
        )
    }

    /// What takes its place when the lock is given back.
    pub fn free(&self) -> String {
        format!("{FREE:<width$}\n", width = self.text().len() - 1)
    }

    fn parse(text: &str) -> Option<Held> {
        let mut lines = text.lines();
        let (process, host) = lines.next()?.strip_prefix("process ")?.split_once(" on ")?;
        let mut field = |name: &str| Some(lines.next()?.strip_prefix(name)?.trim().to_string());
        let (boot, space) = (field("boot")?, field("space")?);
        let (started, beat) = (field("started")?, field("beat")?);
        let [kernel, installation] = ["kernel", "installation"].map(|name| field(name).unwrap_or_default());
        let process = process.parse().ok()?;
        let owner = Owner { host: host.into(), boot, process, space, started, installation };
        Some(Held { owner, beat: beat.parse().ok()?, kernel })
    }
}

impl Note {
    /// Reads one.
    pub fn parse(text: &str) -> Note {
        if text.trim() == FREE {
            return Note::Free;
        }
        Held::parse(text).map_or(Note::Unknown, Note::Held)
    }

    /// Who is named, if anybody is.
    pub fn owner(self) -> Option<Owner> {
        match self {
            Note::Held(held) => Some(held.owner),
            _ => None,
        }
    }
}
