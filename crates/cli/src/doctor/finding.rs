//! The outcome of one check.

use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Ok,
    /// Softband works with a restriction.
    Limited,
    /// Softband does not work.
    Broken,
}

impl Health {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Limited => "limited",
            Self::Broken => "broken",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) name: &'static str,
    pub(super) health: Health,
    pub(super) value: String,
    /// Consequence for runs, and the remedy; both are empty if all is well.
    pub(super) consequence: String,
    pub(super) remedy: String,
}

impl Finding {
    pub(super) fn ok(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, health: Health::Ok, value: value.into(), consequence: String::new(), remedy: String::new() }
    }

    pub(super) fn limited(name: &'static str, value: impl Into<String>, consequence: &str, remedy: &str) -> Self {
        Self { name, health: Health::Limited, value: value.into(), consequence: consequence.to_owned(), remedy: remedy.to_owned() }
    }

    pub(super) fn broken(name: &'static str, value: impl Into<String>, consequence: &str, remedy: &str) -> Self {
        Self { health: Health::Broken, ..Self::limited(name, value, consequence, remedy) }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "status": self.health.word(),
            "value": self.value,
            "consequence": self.consequence,
            "remedy": self.remedy,
        })
    }

    pub(super) fn to_text(&self, width: usize) -> String {
        let more = |what: &str, text: &str| if text.is_empty() { String::new() } else { format!("         {what}: {text}\n") };
        format!(
            "{:7}  {:width$}  {}\n{}{}",
            self.health.word(),
            self.name,
            self.value,
            more("effect", &self.consequence),
            more("remedy", &self.remedy)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Finding;

    #[test]
    fn a_finding_is_a_line_and_a_bad_one_has_its_effect_and_remedy() {
        assert_eq!(Finding::ok("kernel", "6.1").to_text(8), "ok       kernel    6.1\n");
        let broken = Finding::broken("kernel", "4.19", "no run works", "boot another");
        assert_eq!(broken.to_text(6), "broken   kernel  4.19\n         effect: no run works\n         remedy: boot another\n");
        assert_eq!(broken.to_json()["status"], "broken");
    }
}
