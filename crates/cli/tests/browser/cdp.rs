//! Just enough of the Chrome DevTools Protocol to look at a page: one browser, its tabs, calls and events.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::{Message, WebSocket};

/// How long anything may take before the test gives up.
const LIMIT: Duration = Duration::from_secs(30);

const FLAGS: [&str; 13] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-quic",
    "--remote-debugging-port=0",
    "about:blank",
];

/// `$ICLAB_CHROMIUM` (none if that is empty), or the first Chromium on the search path.
pub fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("ICLAB_CHROMIUM") {
        return (!named.is_empty()).then(|| named.into());
    }
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut places =
        names.iter().flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name)));
    places.find(|place| place.is_file())
}

/// A running browser; dropping it ends the process and removes its profile.
pub struct Browser {
    process: Child,
    profile: TempDir,
    endpoint: String,
}

impl Browser {
    /// Starts `program` with a fresh profile below `scratch`.
    pub fn launch(program: &Path, scratch: &Path) -> Browser {
        let profile = tempfile::tempdir_in(scratch).unwrap();
        let process = Command::new(program)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(FLAGS)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {}: {e}", program.display()));
        let mut browser = Browser { process, profile, endpoint: String::new() };
        browser.endpoint = browser.wait_for_endpoint();
        browser
    }

    /// The browser writes the port that it chose, and the address of its endpoint, into its profile.
    fn wait_for_endpoint(&mut self) -> String {
        let file = self.profile.path().join("DevToolsActivePort");
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if let Some((port, path)) = text.split_once('\n').filter(|(_, path)| !path.is_empty()) {
                return format!("127.0.0.1:{port}{}", path.trim_end());
            }
            if let Some(status) = self.process.try_wait().unwrap() {
                panic!("the browser ended at once: {status}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the browser opened no debugging port within {LIMIT:?}");
    }

    /// A new tab that has loaded `url`, where every expression may use what the script `tools` declares.
    pub fn open(&self, url: &str, tools: &str) -> Page {
        let (address, _) = self.endpoint.split_once('/').unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        let (socket, _) = tungstenite::client(format!("ws://{}", self.endpoint), stream).unwrap();
        let mut page = Page { socket, session: None, target: String::new(), calls: 0, events: vec![] };
        let target = page.call("Target.createTarget", json!({ "url": "about:blank" }));
        page.target = target["targetId"].as_str().unwrap().to_string();
        let attached =
            page.call("Target.attachToTarget", json!({ "targetId": page.target, "flatten": true }));
        page.session = attached["sessionId"].as_str().map(str::to_string);
        for domain in ["Page", "Network", "Runtime", "Log", "DOM", "Accessibility"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": tools }));
        page.call("Page.navigate", json!({ "url": url }));
        page.wait_for("Page.loadEventFired");
        page.settle();
        page
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // Helper processes may hold the profile a moment longer.
        for _ in 0..20 {
            if std::fs::remove_dir_all(self.profile.path()).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// One tab, and everything it has reported so far.
pub struct Page {
    socket: WebSocket<TcpStream>,
    session: Option<String>,
    target: String,
    calls: u64,
    /// Events in the order in which they came.
    pub events: Vec<Value>,
}

impl Page {
    /// Calls a method and waits for its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.socket.send(Message::text(message.to_string())).unwrap();
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            let mut answer = self.read();
            if answer["id"] == json!(self.calls) {
                assert!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
                return answer["result"].take();
            }
            self.events.push(answer);
        }
        panic!("{method} took longer than {LIMIT:?}");
    }

    /// The value of an expression, or of the promise that it is.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", params);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    /// Waits until what was asked for has been laid out and painted.
    pub fn settle(&mut self) {
        self.eval(
            "document.fonts.ready.then(() => new Promise((done) => \
             requestAnimationFrame(() => requestAnimationFrame(() => done(0)))))",
        );
    }

    /// Shows the page in a window of this size, from its top.
    pub fn resize(&mut self, (width, height): (u32, u32)) {
        let mobile = width < 600;
        let scale = if mobile { 2 } else { 1 };
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": mobile });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        self.eval("scrollTo({ top: 0, behavior: 'instant' })");
        self.settle();
    }

    /// Clicks at a place `[x, y]`.
    pub fn press(&mut self, place: &Value) {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
        self.settle();
    }

    /// The whole page as a picture for people.
    pub fn screenshot(&mut self, file: &Path) {
        let size = self.call("Page.getLayoutMetrics", json!({}));
        let (width, height) = (&size["cssContentSize"]["width"], &size["cssContentSize"]["height"]);
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let shot =
            self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true, "clip": clip }));
        let picture = data_encoding::BASE64.decode(shot["data"].as_str().unwrap().as_bytes()).unwrap();
        std::fs::write(file, picture).unwrap();
    }

    fn wait_for(&mut self, event: &str) {
        let start = Instant::now();
        while !self.events.iter().any(|e| e["method"] == event) {
            assert!(start.elapsed() < LIMIT, "no {event} within {LIMIT:?}");
            let message = self.read();
            self.events.push(message);
        }
    }

    fn read(&mut self) -> Value {
        loop {
            match self.socket.read().unwrap_or_else(|e| panic!("the browser does not answer: {e}")) {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Close(_) => panic!("the browser closed the connection"),
                _ => {}
            }
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let close = json!({ "id": 0, "method": "Target.closeTarget", "params": { "targetId": self.target } });
        let _ = self.socket.send(Message::text(close.to_string()));
    }
}
