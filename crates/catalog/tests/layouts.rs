//! Drawings of all fabrics of the repository and of generated ones: nothing overlaps, and nothing
//! leaves the picture.

use crate::common;

use crate::common::{catalog, fabric_paths, parse};
use softband_catalog::drawing::{Drawing, Frame, Levels, NODES_MAX, Node, place};
use softband_catalog::{LoadOptions, draw_svg, load_fabric};
use softband_spec::{FabricSpec, PortRef};

/// Parts of generated fabrics.
const PARTS: &str = "host = \"qdr-host\"\nhca = \"connectx2-qdr\"\nhost_cable = \"copper-4x\"\nhost_cable_length = \"1 m\"\n";
const FORMS: [&str; 19] = [
    "kind = \"star\"\nhosts = 1",
    "kind = \"star\"\nhosts = 11",
    "kind = \"star\"\nhosts = 36",
    "kind = \"fat-tree\"\nports = 8\nhosts = 16",
    "kind = \"fat-tree\"\nports = 8\nhosts = 32",
    "kind = \"fat-tree\"\nports = 12\noversubscription = 2\nhosts = 24",
    "kind = \"fat-tree\"\nlevels = 3\nports = 4\nhosts = 16",
    "kind = \"fat-tree\"\nlevels = 3\nports = 8\nhosts = 128",
    "kind = \"torus\"\ndimensions = [2, 2]\nhosts_per_switch = 2",
    "kind = \"torus\"\ndimensions = [4, 4]\nhosts_per_switch = 3",
    "kind = \"torus\"\ndimensions = [8, 8]\nhosts_per_switch = 1",
    "kind = \"torus\"\ndimensions = [2, 2, 2]\nhosts_per_switch = 1",
    "kind = \"torus\"\ndimensions = [3, 3, 3]\nhosts_per_switch = 1",
    "kind = \"torus\"\ndimensions = [2, 3, 4]\nhosts_per_switch = 1",
    "kind = \"hypercube\"\ndimension = 3\nhosts_per_switch = 2",
    "kind = \"hypercube\"\ndimension = 4\nhosts_per_switch = 2",
    "kind = \"dragonfly\"\nhosts_per_switch = 1\nswitches_per_group = 2\nglobal_links = 1\ngroups = 3",
    "kind = \"dragonfly\"\nhosts_per_switch = 2\nswitches_per_group = 4\nglobal_links = 1\ngroups = 5",
    "kind = \"dragonfly\"\nhosts_per_switch = 2\nswitches_per_group = 4\nglobal_links = 2\ngroups = 9",
];

fn all() -> Vec<(String, FabricSpec)> {
    let catalog = catalog();
    let written = fabric_paths().into_iter().map(|path| {
        let spec = load_fabric(&path, &catalog, &LoadOptions::default()).unwrap_or_else(|error| panic!("{}", error.to_text())).spec;
        (path.display().to_string(), spec)
    });
    let generated = FORMS.iter().map(|form| (form.replace('\n', ", "), generated(form)));
    written.chain(generated).collect()
}

fn generated(form: &str) -> FabricSpec {
    let text = format!("[generate]\n{form}\n{PARTS}switch = \"infiniscale-iv\"\n");
    parse(&text).unwrap_or_else(|error| panic!("{}", error.to_text())).spec
}

fn drawings() -> Vec<(String, FabricSpec, Drawing)> {
    let small = all().into_iter().filter(|(_, spec)| spec.hosts.len() + spec.switches.len() <= NODES_MAX);
    let drawn = small.map(|(name, spec)| {
        let drawing = place(&spec, &Levels::of(&spec), Frame { top: 80, width_min: 372 });
        (name, spec, drawing)
    });
    drawn.collect()
}

/// Returns whether two boxes with this much room around them overlap.
fn overlap(a: &Node, b: &Node, room: i64) -> bool {
    let apart = |a: i64, b: i64| 2 * (a - b).abs();
    apart(a.centre.0, b.centre.0) < a.width + b.width + 2 * room && apart(a.centre.1, b.centre.1) < a.height + b.height + 2 * room
}

#[test]
fn every_node_has_a_box_of_its_own_within_the_picture() {
    for (name, spec, drawing) in drawings() {
        assert_eq!(drawing.nodes.len(), spec.hosts.len() + spec.switches.len(), "{name}");
        for (index, node) in drawing.nodes.iter().enumerate() {
            let ((x, y), (across, down)) = (node.centre, (node.width / 2, node.height / 2));
            let is_inside = x - across >= 8 && x + across <= drawing.width - 8 && y - down >= 80 && y + down <= drawing.height;
            assert!(is_inside, "{name}: {} leaves the picture", node.name);
            for other in &drawing.nodes[index + 1..] {
                assert!(!overlap(node, other, 2), "{name}: {} lies over {}", node.name, other.name);
            }
        }
    }
}

fn name_of(spec: &FabricSpec, port: PortRef) -> &str {
    match port {
        PortRef::Hca { host, .. } => &spec.hosts[host].name,
        PortRef::Switch { switch, .. } => &spec.switches[switch].name,
    }
}

#[test]
fn no_cable_passes_behind_the_box_of_another_node() {
    for (name, spec, drawing) in drawings() {
        for (cable, halves) in spec.cables.iter().zip(drawing.halves.chunks_exact(2)) {
            let ends = cable.ends.map(|end| name_of(&spec, end));
            for step in 0..=60 {
                for (x, y) in [0, 1].map(|half: usize| halves[half].at(f64::from(step) / 60.0)) {
                    let hidden = drawing.nodes.iter().find(|node| {
                        !ends.contains(&node.name.as_str())
                            && (x - node.centre.0).abs() * 2 < node.width
                            && (y - node.centre.1).abs() * 2 < node.height
                    });
                    assert!(hidden.is_none(), "{name}: {} to {} passes behind {}", ends[0], ends[1], hidden.map_or("", |node| &node.name));
                    assert!((0..=drawing.width).contains(&x) && (0..=drawing.height).contains(&y), "{name}: {} to {}", ends[0], ends[1]);
                }
            }
        }
    }
}

#[test]
fn cables_of_the_same_two_nodes_lie_beside_each_other() {
    for (name, spec, drawing) in drawings() {
        let mut middles: Vec<_> =
            drawing.halves.chunks_exact(2).filter(|halves| halves[0].to == halves[1].to).map(|halves| halves[0].at(0.8)).collect();
        let count = middles.len();
        middles.sort_unstable();
        middles.dedup();
        assert_eq!(middles.len(), count, "{name}: cables lie over each other ({} in all)", spec.cables.len());
    }
}

/// An element of a picture: name, attributes and text.
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
}

impl Element {
    fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
    fn number(&self, name: &str) -> f64 {
        self.get(name).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} of {}", self.name))
    }
}

/// Returns all elements of well-formed XML in order. Panics on other text.
fn elements(xml: &str) -> Vec<Element> {
    let (mut all, mut open): (Vec<Element>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        let (text, tag) = rest.split_at(start);
        assert!(!text.contains('>') || text.contains('{'), "{text}");
        let entities = text.split('&').skip(1);
        entities.for_each(|after| assert!(["amp;", "lt;", "gt;", "quot;"].iter().any(|entity| after.starts_with(entity)), "&{after}"));
        if let Some(current) = open.last() {
            all[*current].text.push_str(text);
        }
        let end = tag.find('>').expect("a tag ends");
        let inside = &tag[1..end];
        rest = &tag[end + 1..];
        if let Some(name) = inside.strip_prefix('/') {
            let of = open.pop().expect("a closing tag has an opening one");
            assert_eq!(all[of].name, name, "tags are nested");
            continue;
        }
        let (inside, is_closed) = inside.strip_suffix('/').map_or((inside, false), |inside| (inside, true));
        let (name, mut attributes) = inside.split_once(' ').unwrap_or((inside, ""));
        let mut element = Element { name: name.to_owned(), attributes: Vec::new(), text: String::new() };
        while !attributes.trim().is_empty() {
            let (key, value) = attributes.trim_start().split_once("=\"").expect("an attribute has a value");
            let (value, after) = value.split_once('"').expect("a value ends");
            assert!(element.get(key).is_none() && !value.contains('<'), "{inside}");
            element.attributes.push((key.to_owned(), value.to_owned()));
            attributes = after;
        }
        if !is_closed {
            open.push(all.len());
        }
        all.push(element);
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "all tags are closed");
    all
}

/// Returns the width of a text in pixels, with a generous letter width for its size.
fn width_of(text: &Element) -> f64 {
    let class = text.get("class").unwrap_or("");
    let letter = match class {
        "title" => 11.3,
        "small" | "port" => 6.3,
        _ if class.contains("head") || class == "mark" => 8.4,
        _ => 7.1,
    };
    let letters = text.text.replace("&quot;", "q").replace("&amp;", "a").replace("&lt;", "l").replace("&gt;", "g");
    letters.chars().count() as f64 * letter
}

#[test]
fn every_picture_is_well_formed_and_its_labels_stay_within_it() {
    for (name, spec) in all() {
        let svg = draw_svg(&spec);
        let all = elements(&svg);
        let root = &all[0];
        let (width, height) = (root.number("width"), root.number("height"));
        assert_eq!((root.name.as_str(), root.get("role")), ("svg", Some("img")), "{name}");
        assert_eq!(root.get("viewBox"), Some(format!("0 0 {width} {height}").as_str()), "{name}");
        assert!(root.get("aria-label").is_some_and(|label| !label.is_empty()), "{name}");
        let description = &all.iter().find(|element| element.name == "desc").expect("a description").text;
        for count in [format!("{} host", spec.hosts.len()), format!("{} cable", spec.cables.len())] {
            assert!(description.contains(&count), "{name}: {description}");
        }
        assert!(spec.cables.iter().all(|cable| description.contains(&cable.rate_name())), "{name}: {description}");
        for text in all.iter().filter(|element| element.name == "text") {
            let (x, y, room) = (text.number("x"), text.number("y"), width_of(text));
            let class = text.get("class").unwrap_or("");
            let is_centred = class.contains("middle") || ["mark", "port"].contains(&class);
            let left = if is_centred { x - room / 2.0 } else { x };
            assert!(left >= 0.0 && left + room <= width && y > 8.0 && y < height, "{name}: `{}` leaves the picture of {width}", text.text);
        }
    }
}

#[test]
fn labels_of_cables_hide_neither_each_other_nor_a_node() {
    for (name, spec) in all() {
        let all = elements(&draw_svg(&spec));
        let texts = |class: &'static str| all.iter().filter(move |element| element.name == "text" && element.get("class") == Some(class));
        let labels: Vec<(f64, f64)> = texts("mark").chain(texts("port")).map(|text| (text.number("x"), text.number("y") - 4.0)).collect();
        for (index, (x, y)) in labels.iter().enumerate() {
            let near = labels[index + 1..].iter().find(|(to_x, to_y)| (x - to_x).abs() < 10.0 && (y - to_y).abs() < 12.0);
            assert!(near.is_none(), "{name}: labels at {x} {y} and {near:?}");
            let boxes = all.iter().filter(|element| element.name == "rect" && ["host", "switch"].map(Some).contains(&element.get("class")));
            for node in boxes {
                let across = *x > node.number("x") - 4.0 && *x < node.number("x") + node.number("width") + 4.0;
                let down = *y > node.number("y") - 4.0 && *y < node.number("y") + node.number("height") + 4.0;
                assert!(!(across && down), "{name}: a label at {x} {y} lies on a node");
            }
        }
    }
}

#[test]
fn long_titles_and_names_have_room() {
    let long = "a-host-with-a-name-as-long-as-names-in-clouds-are-today";
    let title = format!("{} {}", "A title that does not fit into one line of so small a picture".repeat(2), "x".repeat(90));
    let text = format!("[fabric]\ntitle = \"{title}\"\n{}", common::HOSTS_AND_SWITCH.replace("hosts.a", &format!("hosts.{long}")));
    let text = text + &format!("[[cables]]\npart = \"cx4\"\nfrom = \"{long}/mthca0/1\"\nto = \"sw/7\"\n");
    let svg = draw_svg(&parse(&text).unwrap_or_else(|error| panic!("{}", error.to_text())).spec);
    let all = elements(&svg);
    let width = all[0].number("width");
    for text in all.iter().filter(|element| element.name == "text" && element.get("class") == Some("title")) {
        assert!(text.number("x") + width_of(text) <= width, "{}", text.text);
    }
    assert!(svg.contains("class=\"middle\">a-host-with-a…"), "{svg}");
}

#[test]
fn grids_of_three_dimensions_and_cubes_stand_in_rows_and_columns() {
    for form in ["kind = \"torus\"\ndimensions = [3, 3, 3]\nhosts_per_switch = 1", "kind = \"hypercube\"\ndimension = 3\nhosts_per_switch = 1"] {
        let spec = generated(form);
        let drawing = place(&spec, &Levels::of(&spec), Frame { top: 0, width_min: 0 });
        let switches: Vec<&Node> = drawing.nodes.iter().filter(|node| node.is_switch).collect();
        let mut rows: Vec<i64> = switches.iter().map(|node| node.centre.1).collect();
        rows.sort_unstable();
        rows.dedup();
        let side = if switches.len() == 27 { 3 } else { 2 };
        assert_eq!(rows.len(), side * side, "{form}");
    }
}
