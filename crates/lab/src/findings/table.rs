//! Tables as plain data.

use serde::{Deserialize, Serialize};

/// A small table of text, for what is better read than seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    /// File-name stem, unique within a report.
    pub id: String,
    /// A short headline.
    pub title: String,
    /// Full sentences.
    pub caption: String,
    /// Column heads.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table of rows under column heads.
    pub fn new(
        id: impl Into<String>,
        title: impl Into<String>,
        caption: impl Into<String>,
        columns: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Table {
        Table {
            id: id.into(),
            title: title.into(),
            caption: caption.into(),
            columns: columns.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().collect(),
        }
    }
}
