//! Checks of any page of a report: each returns what is wrong with it, nothing if all is well.

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

/// What is wrong with the page of this file; nothing if all is well.
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
pub fn quiet(page: &mut Page, file: &Path) -> Vec<String> {
    page.resize(DESKTOP);
    page.eval("scrollTo({ top: document.body.scrollHeight, behavior: 'instant' })");
    page.eval("new Promise((done) => setTimeout(() => done(0), 300))");
    let own = address(file);
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

/// A title, and one heading in sight that begins it.
pub fn headed(page: &mut Page, _: &Path) -> Vec<String> {
    let text = |heading: &Value| heading["text"].as_str().unwrap_or("?").to_string();
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
        [one] if one["shown"] == true && one["inside"] == true && title.starts_with(&text(one)) => {}
        other => problems.push(format!("not one visible heading that says {title:?}: {other:?}")),
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
                if (!walk.currentNode.data.trim() || parent.closest('.scroll :is(td, th), .skip, .sidebar details:not([open]) ul')) continue;
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

/// Every link and every reference inside a drawing has its target, and no name is given twice.
pub fn links(page: &mut Page, file: &Path) -> Vec<String> {
    let folder = file.parent().unwrap();
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
    for link in links.iter().filter(|link| !link.starts_with("https://") && !link.is_empty()) {
        let (other, name) = link.split_once('#').unwrap_or((link, ""));
        let text = std::fs::read_to_string(folder.join(other)).unwrap_or_default();
        let there = match other {
            "" => known.contains(name),
            _ => name.is_empty() || name.starts_with("show=") || text.contains(&format!(" id=\"{name}\"")),
        };
        if !there {
            problems.push(format!("link to {link}, which is nowhere"));
        }
        files += usize::from(!other.is_empty());
        if !other.is_empty()
            && !std::fs::metadata(folder.join(other)).is_ok_and(|m| m.is_file() && m.len() > 0)
        {
            problems.push(format!("link to {link:?}, but no such file"));
        }
    }
    if files == 0 {
        problems.push("no link to a file".to_string());
    }
    problems
}

/// Few stops of the keyboard, and all of them can be seen to have the focus.
pub fn stops(page: &mut Page, _: &Path) -> Vec<String> {
    page.resize(DESKTOP);
    let seen = page.eval(
        "(() => {
            const all = [...document.querySelectorAll('a[href], button, summary, [tabindex], details')];
            const stops = all.filter((e) => e.tabIndex >= 0 && shown(e));
            return { count: stops.length, drawings: stops.filter((e) => e.closest('svg')).length,
                     still: stops.filter((e) => e.matches('.scroll') && e.scrollWidth <= e.clientWidth + 1).length };
        })()",
    );
    let mut problems = vec![];
    if seen["count"].as_u64().unwrap() > 160 {
        problems.push(format!("{} tab stops", seen["count"]));
    }
    if seen["drawings"] != 0 || seen["still"] != 0 {
        problems.push(format!("tab stops in drawings or on tables that do not scroll: {seen}"));
    }
    problems
}

/// The contents stay in sight on a desktop and mark what is being read; on a phone they are behind one word.
pub fn follows(page: &mut Page, _: &Path) -> Vec<String> {
    let mut problems = vec![];
    page.resize(DESKTOP);
    let sections = page.eval("document.querySelectorAll('.sidebar a[href^=\"#\"]').length").as_u64().unwrap();
    for i in 0..sections {
        let link = format!("document.querySelectorAll('.sidebar a[href^=\"#\"]')[{i}]");
        page.eval(&format!(
            "document.getElementById({link}.hash.slice(1)).scrollIntoView({{ block: 'start', behavior: 'instant' }})"
        ));
        page.settle();
        let seen = page.eval(&format!(
            "({{ marked: [...document.querySelectorAll('.sidebar [aria-current=\"true\"]')].map((a) => a.hash), own: {link}.hash, \
               inside: shown({link}) && middle({link})[1] > 0 && middle({link})[1] < innerHeight, end: scrollY + innerHeight >= \
               document.documentElement.scrollHeight - 4 }})"
        ));
        let marked = seen["marked"].as_array().unwrap();
        if seen["end"] == false && (marked.len() != 1 || marked[0] != seen["own"] || seen["inside"] == false)
        {
            problems.push(format!("the sidebar does not follow: {seen}"));
        }
    }
    page.resize(PHONE);
    let menu = "document.querySelector('.sidebar')";
    let links = format!("[...{menu}.querySelectorAll('a')].filter(shown).length");
    let closed = page.eval(&links);
    let place = page.eval(&format!("middle({menu}.querySelector('summary'))"));
    page.press(&place);
    let open = page.eval(&links);
    if closed != 0 || open == 0 {
        problems.push(format!("contents on a phone: {closed} links before it is asked for, {open} after"));
    }
    problems
}

/// On paper: no contents and no buttons, nothing folded or cut, figures no higher than a sheet.
pub fn printed(page: &mut Page, file: &Path) -> Vec<String> {
    // A4 less its margins, in pixels
    let sheet = (680, 994);
    page.resize(sheet);
    page.call("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    page.eval("dispatchEvent(new Event('beforeprint'))");
    page.settle();
    let seen = page.eval(
        "({ aside: [...document.querySelectorAll('.sidebar, .filters, .ways, .running, .files')].filter(shown).length,
            folded: document.querySelectorAll('main details:not([open])').length,
            high: [...document.querySelectorAll('figure')].filter((f) => f.getBoundingClientRect().height > innerHeight).map((f) => f.id),
            wide: document.documentElement.scrollWidth - document.documentElement.clientWidth })",
    );
    let mut problems = vec![];
    if seen["aside"] != 0 || seen["folded"] != 0 || seen["wide"].as_i64() > Some(0) {
        problems.push(format!("on paper: {seen}"));
    }
    for figure in seen["high"].as_array().unwrap() {
        problems.push(format!("{figure} is higher than a sheet of paper"));
    }
    let pdf = page.call("Page.printToPDF", json!({ "preferCSSPageSize": true, "printBackground": false }));
    let pdf = data_encoding::BASE64.decode(pdf["data"].as_str().unwrap().as_bytes()).unwrap();
    if !pdf.starts_with(b"%PDF") {
        problems.push("it cannot be printed".to_string());
    }
    std::fs::write(file.with_extension("pdf"), pdf).unwrap();
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
