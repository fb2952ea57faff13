#include "api/cli/describe.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <climits>

#include "api/cli/help_text.h"
#include "api/cli/object_id.h"
#include "api/connect/target.h"
#include "api/version/version.h"

namespace svcmap::api {

void Describe(CLI::App& app, Words& words) {
  const auto command = [&app](const char* name, const char* description, const char* footer) {
    CLI::App* sub = app.add_subcommand(name, description);
    sub->footer(footer);
    return sub;
  };
  const auto files = [](CLI::App* sub, std::vector<std::string>& to) {
    return sub
        ->add_option("-f,--filename", to,
                     "Manifest, directory of manifests, or - for standard input (repeatable)")
        ->type_name("FILE")
        ->allow_extra_args(false);
  };
  const auto dry_run = [&words](CLI::App* sub) {
    sub->add_flag("--dry-run", words.dry_run, "Show the changes without making them");
  };
  const auto all_namespaces = [&words](CLI::App* sub, const char* text) {
    sub->add_flag("-A,--all-namespaces", words.all_namespaces, text);
  };
  const auto name_space = [&words](CLI::App* sub) {
    sub->add_option("-n,--namespace", words.name_space, "Namespace of the objects")
        ->type_name("NAMESPACE");
  };
  app.require_subcommand(1);
  app.fallthrough();  // Global options may follow the command.
  app.footer(kProgramFooter);
  app.set_help_flag("-h,--help", "Print help and exit");
  app.set_version_flag("--version", VersionLine("svcmapctl"), "Print the version and exit");
  app.add_option("--address", words.address,
                 "Address of the agent: unix:///PATH or tcp://HOST:PORT\n"
                 "[default: $SVCMAP_ADDRESS or " +
                     std::string(kDefaultAddress) + "]")
      ->type_name("ADDRESS");
  app.add_option("--bundle", words.bundle,
                 "Read this file of \"svcmapctl support-bundle\" instead of calling the agent.\n"
                 "Only for get, status, dump and explain")
      ->type_name("FILE");
  app.add_option("--tls-ca", words.tls.ca,
                 "PEM file of the CAs that may sign the agent's certificate. Enables TLS for a\n"
                 "tcp:// address [default: no TLS]")
      ->type_name("FILE");
  app.add_option("--tls-cert", words.tls.certificate,
                 "PEM file of the client certificate; requires --tls-key")
      ->type_name("FILE");
  app.add_option("--tls-key", words.tls.key, "PEM file of the client certificate's private key")
      ->type_name("FILE");
  app.add_option("--tls-server-name", words.tls.server_name,
                 "Name that the agent's certificate must contain; requires --tls-ca\n"
                 "[default: the host of the address]")
      ->type_name("HOST");
  app.add_option("--timeout", words.timeout,
                 "Time to wait for the connection and for each response [default: 10s]")
      ->type_name("DURATION");

  CLI::App* apply = command("apply", "Create or update objects from manifests", kApplyFooter);
  files(apply, words.apply_files)->required();
  apply->add_flag("--strict", words.strict,
                  "Send nothing if a manifest cannot be read, or if a field or kind is unknown");
  apply->add_flag("--prune", words.prune, "Delete all objects that are not in the manifests");
  apply->add_flag("--allow-empty", words.allow_empty,
                  "With --prune: accept manifests without objects, and any number of deletions");
  apply->add_flag("--force", words.force, "With --prune: disconnect a connected controller");
  dry_run(apply);

  CLI::App* remove = command("delete", "Delete objects by name or manifest", kDeleteFooter);
  files(remove, words.delete_files);
  dry_run(remove);
  name_space(remove);
  remove->add_flag("--ignore-not-found", words.ignore_not_found,
                   "Do not report objects that do not exist");
  remove->add_option("KIND", words.kind, KindList())->type_name("");
  remove
      ->add_option("NAME", words.delete_names,
                   "NAMESPACE/NAME, or NAME in namespace \"default\" (repeatable)")
      ->type_name("");

  command("accept-snapshot", "Accept the removals of a snapshot that the agent holds",
          kAcceptSnapshotFooter);

  CLI::App* get = command("get", "List the objects that the agent stores", kGetFooter);
  name_space(get);
  all_namespaces(get, "Select all namespaces [default unless a name is given]");
  get->add_option("-o,--output", words.output,
                  "Output format: table, wide, json, yaml or name [default: table]")
      ->type_name("FORMAT");
  get->add_option("KIND", words.kind, KindList())->required()->type_name("");
  get->add_option("NAME", words.name, "NAMESPACE/NAME, or NAME in namespace \"default\"")
      ->type_name("");

  constexpr char kPageFormats[] = "Output format: text, json or yaml [default: text]";
  constexpr char kLineFormats[] = "Output format: text or json [default: text]";
  CLI::App* status = command("status", "Show the agent's status", kStatusFooter);
  status->add_option("-o,--output", words.output, kPageFormats)->type_name("FORMAT");
  status->add_flag("-v,--verbose", words.verbose,
                   "On a terminal, also print all findings, stages and maps");

  CLI::App* dump = command("dump", "Print the ruleset in nft syntax", kDumpFooter);
  dump->add_option("WHAT", words.what, "desired, applied or plan")->required()->type_name("");

  const auto from = [&words](CLI::App* sub, const std::string& text) {
    sub->add_option("--from", words.from, text)->type_name("ADDRESS");
  };
  CLI::App* explain =
      command("explain", "Explain how svcmap handles a connection, step by step", kExplainFooter);
  from(explain, "Source IP address, or \"node\" [default: explain each kind of source]");
  explain
      ->add_option("--in-interface", words.in_interface,
                   "Interface on which the packet arrives; used if pods are detected by interface")
      ->type_name("NAME");
  explain->add_flag("--requirements", words.requirements,
                    "Print the numbers of the requirements in docs/specification.md");
  explain->add_flag("-v,--verbose", words.verbose,
                    "On a terminal, also print all steps, and the chain names of kube-proxy");
  explain->add_option("-o,--output", words.output, kPageFormats)->type_name("FORMAT");
  explain
      ->add_option("TO", words.to, "ADDRESS:PORT[/PROTOCOL], or NAMESPACE/NAME[:PORT] of a Service")
      ->required()
      ->type_name("");

  CLI::App* wait = command("wait", "Wait until the agent meets a condition", kWaitFooter);
  wait->add_option("--for", words.wait_for,
                   "Condition: serving, controller or revision=NUMBER [default: serving]")
      ->type_name("CONDITION");
  wait->add_option("--timeout", words.wait_timeout, "Total time to wait [default: 30s]")
      ->type_name("DURATION");

  CLI::App* watch = command("watch", "Print events of the agent as they happen", kWatchFooter);
  watch->add_option("-o,--output", words.output, kLineFormats)->type_name("FORMAT");

  CLI::App* check =
      command("check", "Connect to Services and explain unexpected results", kCheckFooter);
  check
      ->add_option("--netns", words.netns,
                   "Network namespace to connect from: a name in /run/netns, or a path\n"
                   "[default: this namespace]")
      ->type_name("NAME");
  check->add_option("--pid", words.pid, "Connect from the network namespace of this process")
      ->type_name("PID")
      ->check(CLI::Range(1, INT_MAX).description(""));
  check
      ->add_option("-n,--namespace", words.name_space,
                   "Kubernetes namespace of the Services [default: all]")
      ->type_name("NAMESPACE");
  all_namespaces(check, "Select all namespaces [default]");
  check->add_option("--sample", words.sample, "Check only this number of random addresses")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, INT_MAX).description(""));
  check->add_option("--rate", words.rate, "Connections per second, 1 to 10000 [default: 100]")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, 10000).description(""));
  check
      ->add_option("--probe-timeout", words.probe_timeout,
                   "Time to wait for each answer [default: 2s]")
      ->type_name("DURATION");
  check->add_flag("--no-endpoints", words.no_endpoints, "Do not connect to endpoints directly");
  check->add_option("-o,--output", words.output, kLineFormats)->type_name("FORMAT");

  const auto metrics_address = [&words](CLI::App* sub) {
    sub->add_option("--metrics-address", words.metrics_address,
                    "Address of the agent's metrics [default: 127.0.0.1:10249]")
        ->type_name("HOST:PORT");
  };
  CLI::App* top =
      command("top", "Show new connections per second by Service or endpoint", kTopFooter);
  metrics_address(top);
  top->add_option("--endpoints", words.endpoints, "Show the endpoints of this Service")
      ->type_name("NAMESPACE/NAME");
  top->add_option("--interval", words.interval, "Time between two readings [default: 2s]")
      ->type_name("DURATION");
  top->add_option("--sort", words.sort, "Order of lines: rate, total or name [default: rate]")
      ->type_name("ORDER");
  top->add_option("--by", words.by,
                  "Group connections by: service, port or destination [default: service]")
      ->type_name("GROUP");
  top->add_option("--rows", words.rows, "Maximum number of lines [default: all that fit]")
      ->type_name("NUMBER")
      ->check(CLI::Range(0, INT_MAX).description(""));
  top->add_flag("--once", words.once, "Print one interval and exit");

  CLI::App* bundle = command("support-bundle",
                             "Collect facts about the agent and the node in a file", kBundleFooter);
  bundle
      ->add_option("FILE", words.bundle_file,
                   "New file, or - for standard output [default: svcmap-bundle-NODE-TIME.tar.gz]")
      ->type_name("");
  bundle->add_flag("--hash-names", words.hash_names,
                   "Replace names of namespaces, Services, EndpointSlices and Nodes with hashes");
  bundle
      ->add_option("--log", words.log_file,
                   "Include this log file of svcmapd [default: the systemd journal]")
      ->type_name("FILE");
  bundle->add_flag("--no-check", words.no_check, "Do not connect to Services");
  metrics_address(bundle);

  CLI::App* migrate =
      command("migrate", "Check whether this node is ready to replace kube-proxy", kMigrateFooter);
  migrate->add_option("-o,--output", words.output, kLineFormats)->type_name("FORMAT");
  migrate->add_option("WHAT", words.migrate, "check")->required()->type_name("");

  CLI::App* fleet =
      command("fleet", "Show the state of a fleet on etcd, or write its objects", kFleetFooter);
  fleet
      ->add_option("--etcd-endpoints", words.etcd_urls,
                   "URLs of the etcd members, separated by commas: https://HOST:PORT")
      ->type_name("URL,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->required();
  fleet->add_option("--etcd-ca", words.etcd_tls.ca, "PEM file of the CAs of etcd's certificate")
      ->type_name("FILE");
  fleet->add_option("--etcd-cert", words.etcd_tls.certificate, "PEM file of the client certificate")
      ->type_name("FILE");
  fleet->add_option("--etcd-key", words.etcd_tls.key, "PEM file of its private key")
      ->type_name("FILE");
  fleet->add_option("--prefix", words.prefix, "Value of --prefix of svcmap-etcd")
      ->type_name("PREFIX")
      ->required();
  fleet
      ->add_option("--status-prefix", words.status_prefix,
                   "Value of --status-prefix of svcmap-etcd; required except for apply")
      ->type_name("PREFIX");
  fleet
      ->add_option("--seq", words.seq,
                   "The writer's sequence number [default: of the last wait, or of the head]")
      ->type_name("NUMBER");
  fleet->add_flag("--behind", words.behind, "nodes: print nodes with a smaller sequence number");
  fleet->add_flag("--rejecting", words.rejecting, "nodes: print nodes with rejected objects");
  fleet->add_flag("--silent", words.silent,
                  "nodes: print nodes without a status of the last 10 minutes");
  fleet->add_option("--percent", words.percent, "wait: percentage of the nodes [default: 100]")
      ->type_name("NUMBER")
      ->check(CLI::Range(1, 100).description(""));
  fleet
      ->add_option("--timeout", words.fleet_timeout,
                   "wait: total time to wait [default: 60s]; explain: as the global option")
      ->type_name("DURATION");
  fleet
      ->add_option("--window", words.window,
                   "wait: time during which the nodes write their status [default: 5s]")
      ->type_name("DURATION");
  fleet->add_option("-o,--output", words.output, kLineFormats)->type_name("FORMAT");
  files(fleet, words.apply_files);
  fleet->add_flag("--strict", words.strict,
                  "apply: write nothing if a manifest cannot be read, or if a field or kind is\n"
                  "unknown");
  fleet->add_flag("--prune", words.prune,
                  "apply: delete all objects that are not in the manifests, including Nodes");
  fleet->add_flag("--allow-empty", words.allow_empty,
                  "With --prune: accept manifests without objects, and any number of deletions");
  fleet->add_flag("--force", words.force, "apply: write even if a Store is the elected writer");
  dry_run(fleet);
  from(fleet, "explain: source IP address, or \"node\" [default: explain each kind of source]");
  fleet->add_option("WHAT", words.fleet, "status, nodes, wait, explain, serve or apply")
      ->required()
      ->type_name("");
  fleet
      ->add_option("--listen", words.listen,
                   "serve: address and port of the status page [default: 127.0.0.1:10261]")
      ->type_name("ADDRESS:PORT");
  fleet->add_option("NODE", words.node, "explain: name of the node")->type_name("");
  fleet
      ->add_option("TO", words.to,
                   "explain: ADDRESS:PORT[/PROTOCOL], or NAMESPACE/NAME[:PORT] of a Service")
      ->type_name("");

  command("version", "Print the versions of svcmapctl and of the agent", kVersionFooter);

  CLI::App* help = command("help", "Print the help of a command", kHelpFooter);
  help->add_option("COMMAND", words.topic, "Name of the command, such as \"migrate check\"")
      ->type_name("");

  CLI::App* completion =
      command("completion", "Print a completion script for a shell", kCompletionFooter);
  completion->add_option("SHELL", words.shell, "bash, zsh or fish")->required()->type_name("");
}

}  // namespace svcmap::api
