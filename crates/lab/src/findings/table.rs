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
