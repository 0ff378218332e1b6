//! The result of a comparison, for people and for machines.

use std::io::Write;

use anyhow::Result;
use modgate_prove::{
    compare::{Answers, Comparison, Example, Group},
    difference::Class,
};
use modgate_review::subject;
use modgate_ui::Page;
use modgate_value::{Value, yaml};

use super::{CompareArgs, requests::Requests};
use crate::terminal::{Terminal, Tone, printable};

/// Namespaces shown of each class.
const NAMESPACES: usize = 5;

pub(super) struct Report<'a, 'r> {
    pub(super) args: &'a CompareArgs,
    pub(super) comparison: &'a Comparison,
    pub(super) requests: &'a Requests<'r>,
}

/// A class in words.
const fn words(class: Class) -> &'static str {
    match class {
        Class::AllowToDeny => "allow to deny",
        Class::DenyToAllow => "deny to allow",
        Class::Messages => "other messages",
        Class::Patches => "other patches",
    }
}

/// A policy's name, or words where none makes the difference.
fn named(policy: &str) -> &str {
    if policy.is_empty() { "(no policy)" } else { policy }
}

/// `Pod shop/web`, for people.
fn title(example: &Example) -> String {
    printable(&subject::title(&example.item.review))
}

impl Report<'_, '_> {
    fn groups(&self, class: Class) -> impl Iterator<Item = (&str, &Group)> {
        let all = self.comparison.by_policy.iter().filter(move |((of, _), _)| *of == class);
        all.map(|((_, policy), group)| (policy.as_str(), group))
    }

    /// The namespaces of a class, those with the most requests first.
    fn namespaces(&self, class: Class) -> Vec<(&str, u64)> {
        let all = self.comparison.by_namespace.iter().filter(|((of, _), _)| *of == class);
        let mut all: Vec<_> =
            all.map(|((_, namespace), count)| (namespace.as_str(), *count)).collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all
    }

    /// Reasons and counts of what was not decided as it was.
    fn counted(&self) -> [(&'static str, Vec<(String, u64)>); 3] {
        let unreplayed = self.requests.unreplayed.iter();
        let unreplayed = unreplayed.map(|(why, count)| (why.to_string(), *count)).collect();
        let caveats = self.requests.caveats.iter();
        let caveats = caveats.map(|(why, count)| (why.to_string(), *count)).collect();
        let answers = self.comparison.recorded.by_policy.iter();
        let answers = answers.map(|((class, policy), count)| {
            (format!("{} by {}", words(*class), printable(named(policy))), *count)
        });
        [
            ("not replayed", unreplayed),
            ("replayed in part", caveats),
            ("answered otherwise then", answers.collect()),
        ]
    }

    /// One line about the answers that requests got, if any are known.
    fn answers(&self) -> Option<String> {
        let Answers { known, same, .. } = self.comparison.recorded;
        let old = self.args.old.display().to_string();
        let count = plural(known, "known answer");
        (known > 0).then(|| format!("{count}: `{}` gives {same} of them", printable(&old)))
    }

    /// One line with all counts.
    fn summary(&self) -> String {
        let Comparison { requests, same, .. } = self.comparison;
        let mut parts = vec![format!("{same} decided alike")];
        for class in Class::ALL {
            let count = self.comparison.count(class);
            if count > 0 {
                parts.push(format!("{count} {}", words(class)));
            }
        }
        let of = match self.requests.invented {
            0 => String::new(),
            invented => format!(" ({invented} invented)"),
        };
        format!("{}{of}: {}", plural(*requests, "request"), parts.join(", "))
    }

    pub(super) fn text(&self, out: &mut impl Write, terminal: &Terminal) -> Result<()> {
        for class in Class::ALL {
            if self.comparison.count(class) == 0 {
                continue;
            }
            let tone = if class == Class::DenyToAllow { Tone::Bad } else { Tone::Heading };
            let count = plural(self.comparison.count(class), "request");
            writeln!(out, "{}: {count}", terminal.paint(tone, words(class)))?;
            let namespaces = self.namespaces(class);
            let shown = namespaces.iter().take(NAMESPACES).map(|(name, count)| match *name {
                "" => format!("{count} in none"),
                name => format!("{count} in {}", printable(name)),
            });
            let more = namespaces.len().saturating_sub(NAMESPACES);
            let more =
                (more > 0).then(|| format!("others in {}", plural(more as u64, "namespace")));
            let namespaces: Vec<String> = shown.chain(more).collect();
            writeln!(out, "  namespaces: {}", namespaces.join(", "))?;
            for (policy, group) in self.groups(class) {
                writeln!(out, "  {}: {}", printable(named(policy)), group.count)?;
                if let Some(example) = &group.example {
                    self.example(out, example, terminal)?;
                }
            }
            writeln!(out)?;
        }
        for (what, reasons) in self.counted() {
            if reasons.is_empty() {
                continue;
            }
            writeln!(out, "{}", terminal.paint(Tone::Notice, what))?;
            for (why, count) in reasons {
                writeln!(out, "  {count}: {why}")?;
            }
            writeln!(out)?;
        }
        if self.requests.not_admitted > 0 {
            let events = plural(self.requests.not_admitted, "event");
            writeln!(out, "{events} that admission does not see")?;
        }
        if let Some(answers) = self.answers() {
            writeln!(out, "{answers}")?;
        }
        Ok(writeln!(out, "{}", self.summary())?)
    }

    fn example(&self, out: &mut impl Write, example: &Example, terminal: &Terminal) -> Result<()> {
        let request = example.item.review.request();
        let place = format!("({}, {})", request.operation.as_str(), example.item.place);
        let place = terminal.paint(Tone::Faint, printable(&place));
        writeln!(out, "    such as {} {place}", title(example))?;
        for (side, messages) in ["old", "new"].iter().zip(&example.messages) {
            for message in messages {
                writeln!(out, "      {side}: {}", printable(message).replace('\n', " "))?;
            }
        }
        for line in yaml::write(&example.object).lines() {
            writeln!(
                out,
                "      {}",
                terminal.paint(Tone::Faint, format!("| {}", printable(line)))
            )?;
        }
        Ok(())
    }

    /// Everything, for machines.
    pub(super) fn value(&self) -> Value {
        let number = |count: u64| Value::from(i64::try_from(count).unwrap_or(i64::MAX));
        let differences =
            Class::ALL.map(|class| (class.as_str(), number(self.comparison.count(class))));
        let namespaces =
            self.comparison.by_namespace.iter().map(|((class, name), count)| -> Value {
                [
                    ("class", Value::from(class.as_str())),
                    ("namespace", name.clone().into()),
                    ("requests", number(*count)),
                ]
                .into_iter()
                .collect()
            });
        let policies = self.comparison.by_policy.iter().map(|((class, policy), group)| -> Value {
            [
                ("class", Value::from(class.as_str())),
                ("policy", policy.as_str().into()),
                ("requests", number(group.count)),
                ("example", group.example.as_ref().map(example).unwrap_or_default()),
            ]
            .into_iter()
            .collect()
        });
        let [unreplayed, caveats, _] = self.counted().map(|(_, reasons)| -> Value {
            let reason = |(why, count): (String, u64)| -> Value {
                [("reason", Value::from(why)), ("events", number(count))].into_iter().collect()
            };
            reasons.into_iter().map(reason).collect()
        });
        let path = |path: &std::path::Path| Value::from(path.display().to_string());
        [
            ("old", path(&self.args.old)),
            ("new", path(&self.args.new)),
            ("requests", number(self.comparison.requests)),
            ("invented", number(self.requests.invented as u64)),
            ("same", number(self.comparison.same)),
            ("differences", differences.into_iter().collect()),
            ("byNamespace", namespaces.collect()),
            ("byPolicy", policies.collect()),
            ("notReplayed", unreplayed),
            ("replayedInPart", caveats),
            ("notAdmitted", number(self.requests.not_admitted)),
            ("answers", self.answers_value()),
        ]
        .into_iter()
        .collect()
    }

    /// How the answers that requests got compare with the old policies.
    fn answers_value(&self) -> Value {
        let number = |count: u64| Value::from(i64::try_from(count).unwrap_or(i64::MAX));
        let Answers { known, same, by_class, by_policy } = &self.comparison.recorded;
        let count = |class| by_class.get(&class).copied().unwrap_or_default();
        let classes = Class::ALL.map(|class| (class.as_str(), number(count(class))));
        let policies = by_policy.iter().map(|((class, policy), count)| -> Value {
            let members = [
                ("class", Value::from(class.as_str())),
                ("policy", policy.as_str().into()),
                ("requests", number(*count)),
            ];
            members.into_iter().collect()
        });
        [
            ("known", number(*known)),
            ("same", number(*same)),
            ("differences", classes.into_iter().collect()),
            ("byPolicy", policies.collect()),
        ]
        .into_iter()
        .collect()
    }

    /// For a browser: the document with the examples as YAML, without the data of Secrets.
    pub(super) fn page(&self) -> Page {
        let mut document = self.value().as_object().cloned().unwrap_or_default();
        let groups = self.comparison.by_policy.values();
        let subjects = groups.map(|group| {
            let example = group.example.as_ref();
            let text = example.map(|it| yaml::write(&it.object)).unwrap_or_default();
            [("text", Value::from(text))].into_iter().collect()
        });
        let by_policy = document.get("byPolicy").and_then(Value::as_array).into_iter().flatten();
        let without_objects: Value = by_policy
            .map(|group| {
                let mut members = group.as_object().cloned().unwrap_or_default();
                let example = members.get("example").and_then(Value::as_object).cloned();
                if let Some(mut example) = example {
                    example.remove("object");
                    members.insert("example", example.into());
                }
                Value::from(members)
            })
            .collect();
        document.insert("byPolicy", without_objects);
        let mut page = Page::new("compare", env!("CARGO_PKG_VERSION"), document.into());
        page.subjects = subjects.collect();
        page
    }

    /// For a comment on a pull request.
    pub(super) fn markdown(&self, out: &mut impl Write) -> Result<()> {
        let cell = |text: &str| printable(text).replace('|', "\\|").replace('\n', " ");
        writeln!(out, "{}\n", self.summary())?;
        let mut any = false;
        for class in Class::ALL {
            for (policy, group) in self.groups(class) {
                if !any {
                    writeln!(out, "| Difference | Policy | Requests | Smallest object |")?;
                    writeln!(out, "| --- | --- | ---: | --- |")?;
                    any = true;
                }
                let example = group.example.as_ref().map(title).unwrap_or_default();
                let (class, policy) = (words(class), cell(named(policy)));
                writeln!(out, "| {class} | {policy} | {} | {} |", group.count, cell(&example))?;
            }
        }
        for class in Class::ALL {
            for (policy, group) in self.groups(class) {
                let Some(example) = &group.example else { continue };
                writeln!(
                    out,
                    "\n<details><summary>{}, {}: {}</summary>\n",
                    words(class),
                    cell(named(policy)),
                    cell(&title(example))
                )?;
                for (side, messages) in ["old", "new"].iter().zip(&example.messages) {
                    for message in messages {
                        writeln!(out, "- {side}: `{}`", cell(message).replace('`', "'"))?;
                    }
                }
                let text = yaml::write(&example.object);
                // Longer than every run of backticks in the text.
                let fence = "`".repeat(3.max(longest_run(&text) + 1));
                writeln!(out, "\n{fence}yaml\n{}{fence}\n\n</details>", printable(&text))?;
            }
        }
        for (what, reasons) in self.counted() {
            for (why, count) in reasons {
                writeln!(out, "\n{}: {}", what, format_args!("{count}, {why}"))?;
            }
        }
        Ok(())
    }
}

fn longest_run(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or_default()
}

fn example(example: &Example) -> Value {
    let request = example.item.review.request();
    let texts = |texts: &[String]| -> Value {
        texts.iter().map(|text| Value::from(text.as_str())).collect()
    };
    let [old, new] = &example.messages;
    [
        ("place", Value::from(example.item.place.as_str())),
        ("operation", request.operation.as_str().into()),
        ("kind", request.kind.kind.clone().into()),
        ("namespace", request.namespace.clone().into()),
        ("name", request.name.clone().into()),
        ("old", texts(old)),
        ("new", texts(new)),
        ("object", example.object.clone()),
    ]
    .into_iter()
    .collect()
}

/// `1 request`, `2 requests`.
fn plural(count: u64, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}
