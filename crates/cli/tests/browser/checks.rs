//! Checks of a page of the report: each returns what is wrong with it, nothing if all is well.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::cdp::Page;

/// A window.
pub const PHONE: (u32, u32) = (390, 844);
/// A window.
pub const DESKTOP: (u32, u32) = (1440, 900);

/// What the checks' scripts share.
pub const TOOLS: &str = "
    const shown = (e) => {
        const box = e.getBoundingClientRect();
        const seen = e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
        return seen && box.width > 0 && box.height > 0;
    };
    const middle = (e) => {
        const box = e.getBoundingClientRect();
        return [box.left + box.width / 2, box.top + box.height / 2];
    };";

/// What is wrong with a page of the report in this folder; nothing if all is well.
pub type Check = fn(&mut Page, &Path) -> Vec<String>;

/// The `file:` address of a path, as the browser spells it.
pub fn address(path: &Path) -> String {
    let path = path.canonicalize().unwrap();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/-._~".contains(&b);
    let spelt = path.to_str().unwrap().bytes();
    let spelt = spelt.map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") });
    format!("file://{}", spelt.collect::<String>())
}

/// Nothing on the console, no exception, and no request but the one for the page itself.
pub fn quiet(page: &mut Page, folder: &Path) -> Vec<String> {
    page.resize(DESKTOP);
    page.eval("scrollTo({ top: document.body.scrollHeight, behavior: 'instant' })");
    page.eval("new Promise((done) => setTimeout(() => done(0), 300))");
    let own = address(&folder.join("index.html"));
    let mut problems = vec![];
    let mut requests = 0;
    for event in &page.events {
        let params = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" => problems.push(format!("exception: {}", params["exceptionDetails"])),
            "Runtime.consoleAPICalled" if matches!(params["type"].as_str(), Some("error" | "assert")) => {
                problems.push(format!("console: {}", params["args"]));
            }
            "Log.entryAdded" if params["entry"]["level"] == "error" => {
                problems.push(format!("log: {}", params["entry"]["text"]));
            }
            "Network.webSocketCreated" => problems.push(format!("web socket to {}", params["url"])),
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap();
                requests += usize::from(url == own);
                if url != own && !url.starts_with("data:") {
                    problems.push(format!("request for {url}"));
                }
            }
            _ => {}
        }
    }
    if requests != 1 {
        problems.push(format!("{requests} requests for the page, not 1"));
    }
    problems
}

pub fn headed(page: &mut Page, _: &Path) -> Vec<String> {
    let seen = page.eval(
        "({ title: document.title, headings: [...document.querySelectorAll('h1')].map((h) => \
         ({ text: h.innerText, shown: shown(h), inside: middle(h)[1] < innerHeight })) })",
    );
    let mut problems = vec![];
    let title = seen["title"].as_str().unwrap().trim();
    if title.is_empty() {
        problems.push("no title".to_string());
    }
    match seen["headings"].as_array().unwrap().as_slice() {
        [one] if one["shown"] == true && one["inside"] == true && one["text"] == title => {}
        other => problems.push(format!("not one visible heading that says {title:?}: {other:?}")),
    }
    problems
}

/// The main result is in sight before anyone scrolls; each claim that fails says why, in the ledger and before it.
pub fn story(page: &mut Page, folder: &Path) -> Vec<String> {
    page.resize(DESKTOP);
    let seen = page.eval(
        "(() => {
            scrollTo({ top: 0, behavior: 'instant' });
            const inside = (e) => shown(e) && middle(e)[1] < innerHeight;
            const without = [...document.querySelectorAll('#ledger tr[data-verdict=fails]')].filter((row) => !row.querySelector('.why'));
            return { drawings: [...document.querySelectorAll('.main-result svg')].filter(inside).length,
                     verdicts: [...document.querySelectorAll('.main-result .badge')].filter(inside).length,
                     without: without.map((row) => row.querySelector('code').innerText),
                     gathered: document.querySelectorAll('#fails .why').length };
        })()",
    );
    let mut problems = vec![];
    if seen["drawings"] == 0 || seen["verdicts"] == 0 {
        problems.push(format!("no main result on the first screen: {seen}"));
    }
    for claim in seen["without"].as_array().unwrap() {
        problems.push(format!("{claim} fails without a reason"));
    }
    let failing = claims(folder).iter().filter(|claim| claim["verdict"] == "fails").count();
    if seen["gathered"] != failing {
        problems.push(format!("{} of {failing} failures are gathered with their reasons", seen["gathered"]));
    }
    problems
}

/// The ledger shows the claims of `ledger.json`, in order, with their statements and verdicts.
pub fn ledger(page: &mut Page, folder: &Path) -> Vec<String> {
    let mut problems = vec![];
    for size in [PHONE, DESKTOP] {
        page.resize(size);
        let rows = page.eval(
            "[...document.querySelectorAll('#ledger tr[data-verdict]')].filter(shown).map((row) => {
                const badge = row.querySelector('.badge');
                const said = badge.cloneNode(true);
                said.querySelectorAll('[aria-hidden]').forEach((e) => e.remove());
                const verdict = shown(badge) ? said.textContent.trim() : 'nothing';
                return [row.querySelector('code').innerText, row.querySelector('p').innerText, verdict];
            })",
        );
        let rows = rows.as_array().unwrap();
        let claims = claims(folder);
        if rows.len() != claims.len() {
            problems.push(format!("{} claims shown of {}", rows.len(), claims.len()));
        }
        for (row, claim) in rows.iter().zip(&claims) {
            for (i, field) in ["id", "statement", "verdict"].into_iter().enumerate() {
                if row[i] != claim[field] {
                    problems
                        .push(format!("{}: {field} {} is shown as {}", claim["id"], claim[field], row[i]));
                }
            }
        }
    }
    problems
}

fn claims(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("ledger.json")).unwrap();
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

/// Every figure that was written is shown, with a caption and a name for readers who hear it.
pub fn figures(page: &mut Page, folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder.join("figures")).unwrap().map(|e| e.unwrap().path());
    let files = files.filter(|f| f.extension().is_some_and(|e| e == "svg")).count();
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
        if seen.len() != files || files == 0 {
            problems.push(format!("{} figures in the page, {files} files", seen.len()));
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

/// Nothing is wider than the window, and no text begins or ends outside it.
pub fn fits(page: &mut Page, size: (u32, u32)) -> Vec<String> {
    page.resize(size);
    let (width, _) = size;
    // A phone zooms out to show what is too wide, so its window counts as well.
    let widths =
        page.eval("[document.documentElement.scrollWidth, document.documentElement.clientWidth, innerWidth]");
    let mut problems = vec![];
    if widths[0].as_u64() > widths[1].as_u64() || widths[2] != json!(width) {
        problems
            .push(format!("{} wide in {} of a window of {width} (now {})", widths[0], widths[1], widths[2]));
    }
    let cut = page.eval(
        r"(() => {
            const cut = [];
            const width = document.documentElement.clientWidth;
            const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            while (walk.nextNode()) {
                const parent = walk.currentNode.parentElement;
                // Cells of scrolled tables and the link that only the keyboard shows are outside on purpose.
                if (!walk.currentNode.data.trim() || parent.closest('.scroll :is(td, th), .skip')) continue;
                if (!parent.checkVisibility({ checkVisibilityCSS: true })) continue;
                const range = document.createRange();
                range.selectNodeContents(walk.currentNode);
                for (const box of range.getClientRects())
                    if (box.width > 0 && (box.left < -0.5 || box.right > width + 0.5)) {
                        cut.push(`${box.left}…${box.right}: ${walk.currentNode.data.trim()}`);
                        break;
                    }
            }
            return cut;
        })()",
    );
    problems.extend(cut.as_array().unwrap().iter().map(|text| format!("text outside the window: {text}")));
    problems
}

/// Pointing at a cell of a heat-map shows its value, which is that of the CSV file.
pub fn values(page: &mut Page, folder: &Path) -> Vec<String> {
    page.resize(DESKTOP);
    // Of every heat-map the first, the middle and the last cell.
    let cells = page.eval(
        r"[...document.querySelectorAll('figure svg')].flatMap((svg) => {
            const tip = (rect) => rect.querySelector('title')?.textContent ?? '';
            // Cells name two steps and a value; marks of lines begin with the name of their series.
            const all = [...svg.querySelectorAll('rect')].filter((rect) => /^[^\n]*: \d+\n/.test(tip(rect)));
            const some = all.length ? [all[0], all[all.length >> 1], all[all.length - 1]] : [];
            window.cells = [...(window.cells ?? []), ...some];
            return some.map((cell) => [svg.closest('figure').id, tip(cell)]);
        })",
    );
    let cells = cells.as_array().unwrap();
    let mut problems = vec![];
    if cells.is_empty() {
        problems.push("nothing to point at".to_string());
    }
    for (i, cell) in cells.iter().enumerate() {
        let [figure, title] = [0, 1].map(|k| cell[k].as_str().unwrap());
        page.eval(&format!("cells[{i}].scrollIntoView({{ block: 'center', behavior: 'instant' }})"));
        page.settle();
        let place = page.eval(&format!("middle(cells[{i}])"));
        for (x, y) in [(&json!(1), &json!(1)), (&place[0], &place[1])] {
            page.call("Input.dispatchMouseEvent", json!({ "type": "mouseMoved", "x": x, "y": y }));
        }
        page.settle();
        let shown = page.eval(&format!(
            "[...document.querySelectorAll('.tip')].filter(shown).map((tip) => tip.innerText).join() || \
                 document.elementFromPoint({}, {})?.querySelector(':scope > title')?.textContent || ''",
            place[0], place[1]
        ));
        if shown != title {
            problems.push(format!("{figure}: the pointer at {title:?} shows {shown}"));
        }
        if let Err(problem) = same_as_file(&folder.join("figures"), figure, title) {
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

/// Every link and every reference inside a drawing has its target, and no name is given twice.
pub fn links(page: &mut Page, folder: &Path) -> Vec<String> {
    let mut list = |expression: &str| -> Vec<String> {
        let found = page.eval(expression);
        found.as_array().unwrap().iter().map(|v| v.as_str().unwrap_or_default().to_string()).collect()
    };
    let links = list("[...document.querySelectorAll('a')].map((a) => a.getAttribute('href'))");
    let ids = list("[...document.querySelectorAll('[id]')].map((e) => e.id)");
    let uses = list(
        r"[...document.querySelectorAll('svg *')].flatMap((e) => e.getAttributeNames().flatMap((name) =>
            [...e.getAttribute(name).matchAll(/url\(#([^)]+)\)/g)].map((m) => m[1])))",
    );
    let known: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
    let mut problems = vec![];
    if known.len() != ids.len() {
        problems.push(format!("{} ids are given twice", ids.len() - known.len()));
    }
    for name in uses.iter().filter(|name| !known.contains(name.as_str())) {
        problems.push(format!("a drawing refers to #{name}, which is nowhere"));
    }
    let mut files = 0;
    for link in &links {
        if let Some(name) = link.strip_prefix('#') {
            if !known.contains(name) {
                problems.push(format!("link to {link}, which is nowhere"));
            }
        } else if !link.starts_with("https://") {
            files += 1;
            if !std::fs::metadata(folder.join(link)).is_ok_and(|m| m.is_file() && m.len() > 0) {
                problems.push(format!("link to {link:?}, but no such file"));
            }
        }
    }
    if files == 0 {
        problems.push("no link to a file".to_string());
    }
    problems
}

/// A dark scheme turns the page dark, and text stays readable in both.
pub fn dark(page: &mut Page, _: &Path) -> Vec<String> {
    page.resize(DESKTOP);
    let mut problems = vec![];
    let [light, dark] = ["light", "dark"].map(|scheme| {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        page.call("Emulation.setEmulatedMedia", json!({ "features": features }));
        page.settle();
        let colours = page.eval(
            "(() => { const s = getComputedStyle(document.body); \
             return [s.backgroundColor, s.color].map((c) => c.match(/[\\d.]+/g).map(Number)); })()",
        );
        let [ground, ink] = [0, 1].map(|i| luminance(&colours[i]));
        let contrast = (ground.max(ink) + 0.05) / (ground.min(ink) + 0.05);
        if contrast < 7.0 {
            problems.push(format!("contrast of {contrast:.1} in the {scheme} scheme"));
        }
        ground
    });
    if light < 0.8 || dark > 0.1 {
        problems.push(format!("luminance of the page is {light:.2} in light, {dark:.2} in dark"));
    }
    problems
}

/// Relative luminance of an sRGB colour.
fn luminance(colour: &Value) -> f64 {
    let part = |i: usize| {
        let c = colour[i].as_f64().unwrap() / 255.0;
        if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * part(0) + 0.7152 * part(1) + 0.0722 * part(2)
}
