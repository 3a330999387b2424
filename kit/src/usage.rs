//! From the command line and the environment to a program's arguments, or one line that says
//! what is wrong.

use std::ffi::OsString;

use clap::{
    Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::{Failure, failure::one_line};

/// Why there are no arguments to run with.
#[derive(Debug)]
pub(crate) enum Unparsed {
    /// `--help` or `--version`: to standard output, and the program ends with 0.
    Print(String),
    /// Something is wrong.
    Wrong(Failure),
}

/// Parses `arguments`, the first of which is the program's path. The program calls itself `name`.
pub(crate) fn parse<A: clap::Parser>(
    name: &'static str,
    arguments: Vec<OsString>,
) -> Result<A, Unparsed> {
    let command = A::command().name(name).bin_name(name);
    let given: Vec<String> = arguments
        .iter()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    command
        .clone()
        .try_get_matches_from(arguments)
        .and_then(|matches| A::from_arg_matches(&matches))
        .map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                Unparsed::Print(error.render().to_string())
            }
            _ => Unparsed::Wrong(Failure::Usage(one_line(&describe(
                &error, &command, &given,
            )))),
        })
}

/// The first paragraph of clap's message on one line, with its suggestion.
fn describe(error: &clap::Error, command: &Command, given: &[String]) -> String {
    let rendered = error.render().to_string();
    let lines = rendered
        .lines()
        .map(str::trim)
        .skip_while(|line| line.is_empty());
    let paragraph: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    let mut text = match error.kind() {
        // clap's message is the whole help text here.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            "a subcommand is missing".to_owned()
        }
        _ => paragraph
            .strip_prefix("error: ")
            .unwrap_or(&paragraph)
            .to_owned(),
    };
    if let Some(variable) = variable(error, command, given) {
        text = format!("{text} (from the environment variable {variable})");
    }
    if let Some(suggestion) = suggestion(error) {
        text = format!("{text}; did you mean '{suggestion}'?");
    }
    format!("{text} (see --help)")
}

fn suggestion(error: &clap::Error) -> Option<&str> {
    [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedValue,
        ContextKind::SuggestedSubcommand,
    ]
    .into_iter()
    .find_map(|kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.as_str()),
        ContextValue::Strings(texts) => texts.first().map(String::as_str),
        _ => None,
    })
}

/// The environment variable that the wrong value came from, where it was not on the command line.
fn variable(error: &clap::Error, command: &Command, given: &[String]) -> Option<String> {
    let ContextValue::String(shown) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    let flag = shown.split([' ', '=']).next()?;
    let long = flag.strip_prefix("--")?;
    if given
        .iter()
        .any(|argument| argument.split('=').next() == Some(flag))
    {
        return None;
    }
    let argument = command
        .get_arguments()
        .find(|argument| argument.get_long() == Some(long))?;
    let variable = argument.get_env()?;
    std::env::var_os(variable)?;
    Some(variable.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::CommonArgs;

    #[derive(Debug, Parser)]
    #[command(version)]
    struct Args {
        #[command(flatten)]
        common: CommonArgs,
        /// Where to listen
        #[arg(long)]
        listen: Option<std::net::SocketAddr>,
        /// Of this node
        #[arg(long, env = "KIT_TEST_NODE_NUMBER")]
        node: u16,
        /// Never set but by its own variable, which every test process has
        #[arg(long, env = "PATH", value_parser = path_is_a_number, default_value = "1")]
        path: u16,
    }

    fn path_is_a_number(text: &str) -> Result<u16, String> {
        text.parse().or(if text.contains('/') {
            Ok(0)
        } else {
            Err("odd".into())
        })
    }

    fn wrong(arguments: &[&str]) -> String {
        let arguments = std::iter::once("/bin/x").chain(arguments.iter().copied());
        match parse::<Args>("lj-test", arguments.map(OsString::from).collect()) {
            Err(Unparsed::Wrong(Failure::Usage(text))) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_mistake_is_one_line_that_names_it() {
        let golden = [
            (
                &["--node", "1", "--lisen", "[::]:1"][..],
                "unexpected argument '--lisen' found; did you mean '--listen'? (see --help)",
            ),
            (
                &["--node", "1", "--listen", "here"],
                "invalid value 'here' for '--listen <LISTEN>': invalid socket address syntax (see --help)",
            ),
            (
                &["--node", "1", "--log-format", "jsn"],
                "invalid value 'jsn' for '--log-format <FORMAT>' [possible values: text, json]; did you mean 'json'? (see --help)",
            ),
            (
                &["--node", "1", "--admin-listen", "somewhere"],
                "invalid value 'somewhere' for '--admin-listen <ADDR>': invalid socket address syntax (see --help)",
            ),
            (
                &[],
                "the following required arguments were not provided: --node <NODE> (see --help)",
            ),
            (
                &["--node", "70000"],
                "invalid value '70000' for '--node <NODE>': 70000 is not in 0..=65535 (see --help)",
            ),
            (
                &["--node", "1\n2"],
                "invalid value '1 2' for '--node <NODE>': invalid digit found in string (see --help)",
            ),
            (
                &["--node", "1", "more"],
                "unexpected argument 'more' found (see --help)",
            ),
        ];
        for (arguments, expected) in golden {
            assert_eq!(wrong(arguments), expected);
        }
    }

    #[test]
    fn a_wrong_variable_is_named() {
        #[derive(Debug, Parser)]
        struct FromPath {
            /// Of every process
            #[arg(long, env = "PATH")]
            path: u16,
        }
        let parsed = parse::<FromPath>("lj-test", vec!["/bin/x".into()]);
        let Err(Unparsed::Wrong(failure)) = parsed else {
            panic!("PATH is not a number");
        };
        let text = failure.to_string();
        assert!(text.contains("'--path <PATH>'"), "{text}");
        assert!(
            text.contains("(from the environment variable PATH)"),
            "{text}"
        );
    }

    #[test]
    fn help_and_version_are_no_mistakes_and_carry_the_programs_name() {
        for (flag, expected) in [("--version", "lj-test 1."), ("--help", "Usage: lj-test ")] {
            let parsed = parse::<Args>("lj-test", vec!["/bin/x".into(), flag.into()]);
            let Err(Unparsed::Print(text)) = parsed else {
                panic!("{parsed:?}");
            };
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn right_arguments_are_parsed() {
        let arguments = ["x", "--node", "7", "--admin-listen", "[::1]:0"];
        let parsed: Args =
            parse("lj-test", arguments.map(OsString::from).to_vec()).expect("right arguments");
        assert_eq!(parsed.node, 7);
        assert!(matches!(
            parsed.common.admin_listen,
            crate::args::AdminListen::At(address) if address.is_ipv6()
        ));
        assert_eq!((parsed.listen, parsed.path), (None, 0));
    }
}
