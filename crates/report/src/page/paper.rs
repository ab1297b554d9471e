//! The paper's own numbering: how a figure, a table and a section are called there.

use lab::findings::{Figure, Findings};

use crate::text::escape;

/// `Figure 3 of the paper` for the figure of an analysis that reproduces it: its first one.
pub fn figure_name(found: &Findings, index: usize) -> Option<String> {
    let label = label(found)?;
    (index == 0 && label.starts_with("Figure")).then(|| format!("{label} of the paper"))
}

/// Whether a figure reproduces one of the paper's.
pub fn is_reproduced(found: &Findings, figure: &Figure) -> bool {
    figure_name(found, 0).is_some() && found.figures.first().is_some_and(|first| first.id == figure.id)
}

/// `Table 1 of the paper` before the title of the table that reproduces it; ours have titles only.
pub fn table_name(found: &Findings, index: usize) -> String {
    let name = label(found).filter(|label| index == 0 && label.starts_with("Table"));
    name.map_or_else(String::new, |label| {
        format!("<span class=\"name\"><b>{} of the paper</b>{}</span> ", escape(label), place(found))
    })
}

/// Where the paper has it, after its label: ` · Section 4.2`.
pub fn place(found: &Findings) -> String {
    let Some(place) = &found.paper else { return String::new() };
    let appendix = place.section.starts_with(|c: char| c.is_ascii_uppercase());
    match place.section.as_str() {
        "" => String::new(),
        section => format!(" · {} {}", if appendix { "Appendix" } else { "Section" }, escape(section)),
    }
}

/// What an analysis is about: `Figure 3 of the paper`; its code where the paper has no number for it.
pub fn subject(found: &Findings) -> String {
    match label(found) {
        Some(label) => format!("{} of the paper{}", escape(label), place(found)),
        None => place(found).trim_start_matches(" · ").to_string(),
    }
}

/// The paper's own number, where there is one.
fn label(found: &Findings) -> Option<&str> {
    let label = found.paper.as_ref()?.label.as_str();
    label.contains(|c: char| c.is_ascii_digit()).then_some(label)
}
