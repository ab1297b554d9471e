//! Checks of what a page of the report says: the summary's story, the ledger, figures and the values in them.

use std::path::Path;

use serde_json::{Value, json};

use super::cdp::Page;
use super::checks::{DESKTOP, PHONE};

/// The main result is in sight before anyone scrolls; each claim that fails says why.
pub fn story(page: &mut Page, file: &Path) -> Vec<String> {
    page.resize(DESKTOP);
    let seen = page.eval(
        "(() => {
            scrollTo({ top: 0, behavior: 'instant' });
            const inside = (e) => shown(e) && middle(e)[1] < innerHeight;
            const without = [...document.querySelectorAll('.failures li')].filter((row) => !row.querySelector('.why'));
            return { drawings: [...document.querySelectorAll('.main-result svg')].filter(inside).length,
                     verdicts: [...document.querySelectorAll('.main-result .badge')].filter(inside).length,
                     without: without.map((row) => row.querySelector('code').innerText),
                     gathered: document.querySelectorAll('#fails .why').length,
                     figures: document.querySelectorAll('figure').length,
                     parts: document.querySelectorAll('table.tally tbody tr').length };
        })()",
    );
    let mut problems = vec![];
    if seen["drawings"] == 0 || seen["verdicts"] == 0 {
        problems.push(format!("no main result on the first screen: {seen}"));
    }
    for claim in seen["without"].as_array().unwrap() {
        problems.push(format!("{claim} fails without a reason"));
    }
    if seen["figures"].as_u64() > Some(12) || seen["parts"].as_u64() < Some(2) {
        problems.push(format!("twelve figures at most, and counts by whose claims they are: {seen}"));
    }
    let failing = claims(file).iter().filter(|claim| claim["verdict"] == "fails").count();
    if seen["gathered"] != failing {
        problems.push(format!("{} of {failing} failures are gathered with their reasons", seen["gathered"]));
    }
    problems
}

/// The ledger shows the claims of `ledger.json`, in order, with their statements and verdicts.
pub fn ledger(page: &mut Page, file: &Path) -> Vec<String> {
    let mut problems = vec![];
    for size in [PHONE, DESKTOP] {
        page.resize(size);
        let rows = page.eval(
            "[...document.querySelectorAll('#ledger tr[data-verdict]')].filter(shown).map((row) => {
                const badge = row.querySelector('.badge');
                const said = badge.cloneNode(true);
                said.querySelectorAll('[aria-hidden]').forEach((e) => e.remove());
                const verdict = shown(badge) ? said.textContent.trim() : 'nothing';
                const network = row.querySelector('.network');
                return [row.querySelector('code').innerText, row.querySelector('p').innerText, verdict,
                        network && shown(network) ? network.innerText : ''];
            })",
        );
        let rows = rows.as_array().unwrap();
        let claims = claims(file);
        if rows.len() != claims.len() {
            problems.push(format!("{} claims shown of {}", rows.len(), claims.len()));
        }
        for (row, claim) in rows.iter().zip(&claims) {
            for (i, field) in ["id", "statement", "verdict", "network"].into_iter().enumerate() {
                if row[i] != claim[field] {
                    problems
                        .push(format!("{}: {field} {} is shown as {}", claim["id"], claim[field], row[i]));
                }
            }
        }
    }
    problems
}

fn claims(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file.with_file_name("ledger.json")).unwrap();
    let ledger: Value = serde_json::from_str(&text).unwrap();
    let groups = ledger["analyses"].as_array().unwrap();
    let claims: Vec<Value> = groups.iter().flat_map(|g| g["claims"].as_array().unwrap()).cloned().collect();
    assert!(!claims.is_empty(), "a ledger without claims proves nothing");
    claims
}

/// Every filter shows as many claims as it promises.
pub fn filters(page: &mut Page, _: &Path) -> Vec<String> {
    page.resize(DESKTOP);
    let buttons = page.eval("document.querySelectorAll('.filters button').length").as_u64().unwrap();
    let mut problems = vec![];
    if buttons == 0 {
        problems.push("no filter".to_string());
    }
    for i in 0..buttons {
        page.eval("document.querySelectorAll('.filters [data-show=\"\"]').forEach((all) => all.click())");
        let state = format!("const button = document.querySelectorAll('.filters button')[{i}];");
        let place = page.eval(&format!(
            "(() => {{ {state} button.scrollIntoView({{ block: 'center', behavior: 'instant' }}); return middle(button); }})()"
        ));
        page.press(&place);
        let seen = page.eval(&format!(
            "(() => {{ {state} return [button.innerText, parseInt(button.innerText.match(/\\d+/)[0]), \
                 [...document.querySelectorAll('#ledger tr[data-verdict]')].filter(shown).length, \
                 button.disabled]; }})()"
        ));
        if seen[3] == false && seen[1] != seen[2] {
            problems.push(format!("filter {} shows {} claims", seen[0], seen[2]));
        }
    }
    problems
}

/// Every figure has drawings, a caption and a name for readers who hear it.
pub fn figures(page: &mut Page, _: &Path) -> Vec<String> {
    let mut problems = vec![];
    for size in [PHONE, DESKTOP] {
        page.resize(size);
        let seen = page.eval(
            "[...document.querySelectorAll('figure')].map((figure) => {
                const caption = figure.querySelector('figcaption');
                const drawings = [...figure.querySelectorAll('svg')];
                return { id: figure.id, drawings: drawings.length, shown: drawings.filter(shown).length,
                         caption: caption && shown(caption) ? caption.innerText.trim() : '' };
            })",
        );
        let seen = seen.as_array().unwrap();
        if seen.is_empty() {
            problems.push("no figure".to_string());
        }
        for figure in seen {
            if figure["drawings"] == 0 || figure["drawings"] != figure["shown"] {
                problems.push(format!(
                    "{}: {} of {} drawings visible",
                    figure["id"], figure["shown"], figure["drawings"]
                ));
            }
            if figure["caption"].as_str().unwrap().len() < 20 {
                problems.push(format!("{}: caption {}", figure["id"], figure["caption"]));
            }
        }
    }
    let count = page.eval("document.querySelectorAll('figure svg').length").as_u64().unwrap();
    for i in 0..count {
        let element = format!("document.querySelectorAll('figure svg')[{i}]");
        let image = page.call("Runtime.evaluate", json!({ "expression": element }));
        let object = json!({ "objectId": image["result"]["objectId"], "fetchRelatives": false });
        let node = page.call("Accessibility.getPartialAXTree", object);
        let node = &node["nodes"][0];
        if node["ignored"] == true || node["name"]["value"].as_str().is_none_or(|name| name.trim().is_empty())
        {
            problems.push(format!(
                "no accessible name: {} {}",
                image["result"]["description"], node["role"]["value"]
            ));
        }
    }
    problems
}

/// Pointing at a cell of a heat-map shows its value, which is that of the CSV file.
pub fn values(page: &mut Page, file: &Path) -> Vec<String> {
    page.resize(DESKTOP);
    // Of every heat-map the first, the middle and the last cell: its middle, and what must be said of it.
    let cells = page.eval(
        r"[...document.querySelectorAll('figure [data-cells]')].flatMap((map) => {
            const { columns, rows, cells, x, y, value } = map.dataset;
            const [across, up, values] = [columns, rows, cells].map((words) => words.split(' '));
            const some = [0, values.length >> 1, values.length - 1];
            window.cells = [...(window.cells ?? []), ...some.map((at) => {
                const [column, row] = [at % across.length, Math.floor(at / across.length)];
                return () => {
                    const box = map.getBoundingClientRect();
                    return [box.left + box.width * (column + 0.5) / across.length,
                            box.bottom - box.height * (row + 0.5) / up.length];
                };
            })];
            window.maps = [...(window.maps ?? []), map, map, map];
            return some.map((at) => [map.closest('figure').id, `${x}: ${across[at % across.length]}\n` +
                `${y}: ${up[Math.floor(at / across.length)]}\n${value}: ${values[at]}`]);
        })",
    );
    let cells = cells.as_array().unwrap();
    let mut problems = vec![];
    if cells.is_empty() {
        problems.push("nothing to point at".to_string());
    }
    for (i, cell) in cells.iter().enumerate() {
        let [figure, title] = [0, 1].map(|k| cell[k].as_str().unwrap());
        page.eval(&format!("maps[{i}].scrollIntoView({{ block: 'center', behavior: 'instant' }})"));
        page.settle();
        let place = page.eval(&format!("cells[{i}]()"));
        for (x, y) in [(&json!(1), &json!(1)), (&place[0], &place[1])] {
            page.call("Input.dispatchMouseEvent", json!({ "type": "mouseMoved", "x": x, "y": y }));
        }
        page.settle();
        let shown = page
            .eval("[...document.querySelectorAll('.tip')].filter(shown).map((tip) => tip.innerText).join()");
        if !shown.as_str().unwrap().starts_with(title) {
            problems.push(format!("{figure}: the pointer at {title:?} shows {shown}"));
        }
        if let Err(problem) = same_as_file(&file.with_file_name("figures"), figure, title) {
            problems.push(format!("{figure}: {title:?}: {problem}"));
        }
    }
    problems
}

/// Whether the step, the step and the value of a tooltip stand in one row of the figure's file.
fn same_as_file(folder: &Path, figure: &str, title: &str) -> Result<(), String> {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let mut files = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let file = files.find(|f| {
        let stem: String = f.file_stem().unwrap().to_str().unwrap().chars().map(plain).collect();
        f.extension().is_some_and(|e| e == "csv") && figure.ends_with(&stem)
    });
    let text = std::fs::read_to_string(file.ok_or("no CSV file")?).unwrap();
    let number =
        |line: &str| line.rsplit_once(": ").and_then(|(_, v)| v.replace('−', "-").parse::<f64>().ok());
    let shown: Vec<Option<f64>> = title.lines().take(3).map(number).collect();
    let near = |a: Option<f64>, b: &str| match (a, b.parse::<f64>()) {
        (Some(a), Ok(b)) => (a - b).abs() <= 0.006 * b.abs().max(1e-3),
        (None, Ok(b)) => !b.is_finite() || b.abs() < 1e-3 || b.abs() >= 1e5,
        (a, Err(_)) => a.is_none(),
    };
    // The last seven columns are x_step, y_step, value and four more, none of them ever quoted.
    let found = text.lines().skip(1).any(|line| {
        let mut last: Vec<&str> = line.rsplit(',').take(7).collect();
        last.reverse();
        last.len() == 7 && (0..3).all(|k| near(shown[k], last[k]))
    });
    if found { Ok(()) } else { Err("not in the CSV file".into()) }
}
