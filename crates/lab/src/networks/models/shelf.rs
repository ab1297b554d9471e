//! Which of the paper's networks are in a folder, and whether their files are as their cards say.

use std::path::Path;

use super::{Card, NETWORKS, PaperNetwork, how_to_get, named};
use crate::error::{Error, Result};

/// What is found in the place of a network.
pub struct Shelved {
    /// Which network.
    pub network: &'static PaperNetwork,
    /// Its card, all files being as it says; `None` where there is no such folder.
    pub card: Result<Option<Card>>,
}

impl Shelved {
    fn look(root: &Path, network: &'static PaperNetwork) -> Shelved {
        let dir = root.join(network.name);
        let checked = || {
            let card = Card::read(&dir)?;
            card.verify(&dir)?;
            Ok(Some(card))
        };
        Shelved { network, card: if dir.exists() { checked() } else { Ok(None) } }
    }

    /// What is wrong with its files, if anything is; not to be there is nothing wrong.
    pub fn problem(&self) -> Option<String> {
        self.card.as_ref().err().map(ToString::to_string)
    }

    /// The same; not to be there is wrong, and what to do is said.
    pub fn problem_or_absence(&self, root: &Path) -> Option<String> {
        let absent = matches!(self.card, Ok(None)).then(|| missing(root, self.network));
        absent.or_else(|| self.problem())
    }
}

/// Every network.
pub fn shelf(root: &Path) -> Vec<Shelved> {
    NETWORKS.iter().map(|network| Shelved::look(root, network)).collect()
}

/// The networks of these names, in the order of the table; all that are there when none is named.
pub fn shelved(root: &Path, names: &[String]) -> Result<Vec<Shelved>> {
    names.iter().try_for_each(|name| named(name).map(|_| ()))?;
    let wanted = |n: &&PaperNetwork| match names {
        [] => root.join(n.name).exists(),
        _ => names.iter().any(|name| name == n.name),
    };
    Ok(NETWORKS.iter().filter(wanted).map(|network| Shelved::look(root, network)).collect())
}

/// The card of a network that must be there, all files being as it says.
pub fn card(root: &Path, name: &str) -> Result<Card> {
    let network = named(name)?;
    Shelved::look(root, network).card?.ok_or_else(|| Error::BadData(missing(root, network)))
}

fn missing(root: &Path, network: &PaperNetwork) -> String {
    format!(
        "{} is not here; train it ({}) and add it (iclab models add {} RUN); {}",
        root.join(network.name).display(),
        network.recipe(),
        network.name,
        how_to_get()
    )
}
