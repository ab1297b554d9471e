//! Files made to do harm.

use std::io::Cursor;
use std::path::Path;

use ::hostile::measured;
use engine::interchange::pt;
use zip::CompressionMethod;

use crate::build::{self, Tensor, checkpoint, int, read, read_bytes, read_pickle, text};
use crate::golden;

#[test]
fn nothing_is_executed() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("executed");
    let command = format!("touch {}", mark.display());
    let python = format!("__import__('os').system('{command}')");
    let stacked = |module: &str, name: &str| [text(module), text(name), vec![0x93]].concat();
    let calls: Vec<Vec<u8>> = vec![
        [b"cos\nsystem\n", &text(&command)[..], b"\x85R"].concat(),
        [b"cposix\nsystem\n(", &text(&command)[..], b"tR"].concat(),
        [b"cbuiltins\neval\n", &text(&python)[..], b"\x85R"].concat(),
        [b"c__builtin__\nexec\n", &text(&python)[..], b"\x85R"].concat(),
        [stacked("builtins", "eval"), text(&python), b"\x85R".to_vec()].concat(),
        [stacked("subprocess", "Popen"), text(&command), b"\x85\x81".to_vec()].concat(),
        [stacked("subprocess", "Popen"), text(&command), b"\x85}\x92".to_vec()].concat(),
        [b"cos\nsystem\n", &text(&command)[..], b"b"].concat(),
        // a known marker that is given something to call
        [b"ctorch._utils\n_rebuild_parameter\ncos\nsystem\n", &text(&command)[..], b"\x85R\x85R"].concat(),
        [b"ccollections\nOrderedDict\ncos\nsystem\n", &text(&command)[..], b"\x85R\x85R"].concat(),
    ];
    // calls in the text opcodes of protocols 0 and 1
    let old: Vec<Vec<u8>> = vec![
        [b"(", &text(&command)[..], b"ios\nsystem\n"].concat(),
        [b"(cos\nsystem\n", &text(&command)[..], b"o"].concat(),
        format!("cos\nsystem\n(S'{command}'\ntR").into_bytes(),
    ];
    let clean = read_bytes(std::fs::read(golden("lstm.pt")).unwrap()).unwrap();
    for (call, inert) in calls.iter().map(|call| (call, true)).chain(old.iter().map(|call| (call, false))) {
        let alone = read_pickle(&[b"\x80\x02", &call[..], b"."].concat());
        assert!(alone.is_err(), "{alone:?}");
        let inside = read_pickle(&[b"\x80\x02}", &text("_read_in.weight")[..], call, b"s."].concat());
        assert!(inside.is_err(), "{inside:?}");
        // beside a genuine state dict it is inert, and the weights are the same, or the file is refused
        let beside = read_bytes(build::changed("lstm.pt", |_, bytes| {
            if let Some(start) = bytes.strip_suffix(b"u.") {
                *bytes = [start, &text("extra"), call, b"u."].concat();
            }
        }));
        match inert {
            true => assert_eq!(beside.unwrap(), clean),
            false => assert!(beside.unwrap_err().to_string().contains("torch.save writes no opcode")),
        }
    }
    assert!(!mark.exists(), "something was executed");
}

fn refused(state: Vec<Tensor>, words: &[&str]) {
    let sentence = read(&state).unwrap_err().to_string();
    for word in words {
        assert!(sentence.contains(word), "{sentence}");
    }
}

#[test]
fn views_beyond_their_bytes_are_refused() {
    let with = |change: &dyn Fn(&mut Tensor)| {
        let mut state = build::lstm();
        change(&mut state[2]); // _backbone.weight_ih_l0, [12, 3]
        state
    };
    let name = "_backbone.weight_ih_l0";
    refused(with(&|t| t.bytes -= 1), &[name, "within the 35 elements", "[12, 3]"]);
    refused(with(&|t| t.bytes = 0), &[name, "within the 0 elements"]);
    refused(with(&|t| t.offset = 1), &[name, "from element 1"]);
    refused(with(&|t| t.offset = i64::MAX), &[name, "from element"]);
    refused(with(&|t| t.offset = -1), &["a tensor should have"]);
    refused(with(&|t| t.stride = vec![i64::MAX, i64::MAX]), &[name, "strides"]);
    refused(with(&|t| t.stride = vec![4, 1]), &[name, "strides [4, 1]"]);
    refused(with(&|t| t.stride = vec![1]), &["a tensor should have"]);
    refused(with(&|t| t.shape = vec![3, 12]), &[name, "shape [12, 3]", "shape [3, 12]"]);
    refused(with(&|t| t.class = "LongStorage"), &[name, "float32", "I64"]);
    refused(with(&|t| t.class = "QInt8Storage"), &[name, "unknown type"]);
    let mut absent = with(&|t| t.key = "elsewhere".into());
    absent[2].bytes = 0;
    refused(absent, &[name, "within the 0 elements"]);
    // one stored element, stretched by strides of 0
    let stretched = |t: &mut Tensor| (t.stride, t.bytes) = (vec![0, 0], 4);
    refused(with(&stretched), &[name, "at most 1 values"]);
}

#[test]
fn networks_too_large_for_their_file_are_refused() {
    let mut state = build::lstm();
    let huge = 1 << 30;
    state[0] = Tensor { shape: vec![huge, huge], stride: vec![0, 0], ..state[0].clone() };
    refused(state, &["parameters"]);
    let mut state = build::lstm();
    for tensor in &mut state {
        // a width of 3000 where 3 are stored
        tensor.shape.iter_mut().filter(|size| **size % 3 == 0).for_each(|size| *size *= 1000);
        tensor.stride.fill(0);
    }
    refused(state, &["cannot be in so small a file"]);
    let mut state = build::lstm();
    state.push(Tensor::float("_backbone.weight_ih_l4000000000", &[12, 3]));
    refused(state, &["missing", "_l1`", "_l4000000000"]);
}

/// Reads a file that must be refused, with a bound on the memory that it costs; returns the sentence.
fn refused_cheaply(bytes: Vec<u8>) -> String {
    let length = bytes.len();
    let (result, used) = measured(|| read_bytes(bytes));
    assert!(used < 100 * length + (2 << 20) && used < 64 << 20, "{used} bytes for a file of {length}");
    result.unwrap_err().to_string()
}

#[test]
fn bombs_stay_small() {
    ::hostile::alone!();
    for (name, size) in [("archive/data.pkl", 48 << 20), ("archive/byteorder", 8 << 20)] {
        let zeros = vec![b'N'; size];
        let members = [("archive/data.pkl", &b"}."[..]), (name, &zeros)];
        let members = if name.ends_with("pkl") { &members[1..] } else { &members[..] };
        let bomb = build::pack(members, CompressionMethod::Deflated);
        assert!(bomb.len() < 1 << 20);
        assert!(refused_cheaply(bomb).contains("accepted: at most"));
    }
    let members: Vec<(String, &[u8])> = (0..20_000).map(|index| (format!("a/{index}"), &b""[..])).collect();
    assert!(refused_cheaply(build::zip(&members)).contains("no data.pkl"));
    let cheaply = |pickle: &[u8]| {
        let sentence = refused_cheaply(build::zip(&[("archive/data.pkl", &[b"\x80\x02", pickle].concat())]));
        assert!(!sentence.contains("torch.save writes"), "refused for its opcodes alone: {sentence}");
        sentence
    };
    // a list of pairs copied again and again
    let pair = [&text("k")[..], b"N\x86q\x01"].concat();
    let mut copies = [b"]q\x00(", &pair[..], &b"h\x01".repeat(20_000), b"e0"].concat();
    copies.extend(b"ccollections\nOrderedDict\nh\x00\x85R".repeat(5_000));
    copies.push(b'.');
    assert!(cheaply(&copies).contains("copies more than"));
    // marks, repetitions, nesting and cycles
    for pickle in [
        b"(".repeat(600_000),
        b"N".repeat(600_000),
        [b"Nq\x00".to_vec(), b"h\x00".repeat(600_000)].concat(),
        b"]".repeat(600_000),
        [b"]".repeat(100_000), b"a".repeat(99_999), b".".to_vec()].concat(),
        [b"N".to_vec(), b"\x85".repeat(100_000), b".".to_vec()].concat(),
        b"]q\x00h\x00a.".to_vec(),
        b"}q\x00X\x01\x00\x00\x00ah\x00s.".to_vec(),
        [b"}q\x00", &text("model_state_dict")[..], b"h\x00s."].concat(),
        [b"}r\xff\xff\xff\xff0j\xff\xff\xff\xff", &int(1)[..], b"j\xff\xff\xff\xff."].concat(),
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
        b"\x8b\xff\xff\xff\xff".to_vec(),
        b"X\xff\xff\xff\x7fabc.".to_vec(),
        b"\x95\xff\xff\xff\xff\xff\xff\xff\xff}.".to_vec(),
    ] {
        cheaply(&pickle);
    }
}

#[test]
fn other_folders_orders_and_compressions_are_read() {
    let clean = read_bytes(std::fs::read(golden("lstm.pt")).unwrap()).unwrap();
    for (folder, method) in [
        ("", CompressionMethod::Stored),
        ("runs/a b/état/", CompressionMethod::Stored),
        ("archive/", CompressionMethod::Deflated),
    ] {
        let list: Vec<_> = build::members(&std::fs::read(golden("lstm.pt")).unwrap())
            .into_iter()
            .map(|(name, bytes)| (format!("{folder}{}", name.split_once('/').unwrap().1), bytes))
            .collect();
        assert_eq!(read_bytes(build::pack(&list, method)).unwrap(), clean, "{folder}");
    }
    let swapped = build::changed("lstm.pt", |name, bytes| {
        if name.contains("/data/") {
            bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|value| value.reverse());
        } else if name.ends_with("byteorder") {
            *bytes = b"big".to_vec();
        }
    });
    assert_eq!(read_bytes(swapped).unwrap(), clean);
    let damaged = pt::read_from(Path::new("x.pt"), Cursor::new(checkpoint(&[])), None).unwrap_err();
    assert!(damaged.to_string().contains("read_in.weight"), "{damaged}");
}
