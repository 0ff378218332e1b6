// Package alerts evaluates the alerts of the chart on made-up series: each fires where it should, and only there.
package alerts

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"sigs.k8s.io/yaml"
)

// rule is what is needed of an alert.
type rule struct {
	Alert string `json:"alert"`
	Expr  string `json:"expr"`
	For   string `json:"for"`
}

// at is when expressions are evaluated, the last minute of every series.
const at = 29 * time.Minute

// series is what a case loads: a sample each minute, in promql's notation.
type cases struct {
	fires []string
	quiet []string
}

const (
	build = `modgate_build_info{job="modgate",instance="a",version="1"} 1x30`
	slow  = `_bucket{le="0.1"} 0x30` + "\n" + `NAME_bucket{le="30"} 0+60x30` + "\n" + `NAME_bucket{le="+Inf"} 0+60x30`
	fast  = `_bucket{le="0.1"} 0+60x30` + "\n" + `NAME_bucket{le="30"} 0+60x30` + "\n" + `NAME_bucket{le="+Inf"} 0+60x30`
)

// histogram gives a histogram its name and a label.
func histogram(name, label, buckets string) string {
	text := strings.ReplaceAll(name+buckets, "NAME", name)
	if label != "" {
		text = strings.ReplaceAll(text, "_bucket{", "_bucket{"+label+",")
	}
	return text
}

// leader says whether a Pod of a Deployment leads.
func leader(deployment, samples string) string {
	return `modgate_leader{app_kubernetes_io_component="` + deployment + `",pod="` + deployment + `-a"} ` + samples
}

// running is a Pod of a Deployment.
func running(deployment string) string {
	return `modgate_build_info{app_kubernetes_io_component="` + deployment + `",job="modgate",instance="a",version="1"} 1x30`
}

// since is a Pod, and when its process started.
func since(samples string) string {
	return build + "\n" + `process_start_time_seconds{job="modgate",instance="a"} ` + samples
}

var all = map[string]cases{
	"ModgateDown": {
		fires: []string{`up{job="modgate"} 0x30`},
		quiet: []string{build},
	},
	"ModgateValidationErrors": {
		fires: []string{
			`gatekeeper_validation_request_count_total{admission_status="error"} 0+1x30`,
			`gatekeeper_validation_request_count_total{admission_status="unknown"} 0+1x30`,
		},
		quiet: []string{
			`gatekeeper_validation_request_count_total{admission_status="deny"} 0+1x30`,
			`gatekeeper_validation_request_count_total{admission_status="error"} 7x30`,
		},
	},
	"ModgateValidationSlow": {
		fires: []string{histogram("gatekeeper_validation_request_duration_seconds", "", slow)},
		quiet: []string{histogram("gatekeeper_validation_request_duration_seconds", "", fast)},
	},
	"ModgateMutationErrors": {
		fires: []string{`gatekeeper_mutation_request_count_total{mutation_status="error"} 0+1x30`},
		quiet: []string{`gatekeeper_mutation_request_count_total{mutation_status="success"} 0+1x30`},
	},
	"ModgateMutationSlow": {
		fires: []string{histogram("gatekeeper_mutation_request_duration_seconds", "", slow)},
		quiet: []string{histogram("gatekeeper_mutation_request_duration_seconds", "", fast)},
	},
	"ModgateMutatorConflict": {
		fires: []string{`gatekeeper_mutator_conflicting_count 2x30`},
		quiet: []string{`gatekeeper_mutator_conflicting_count 0x30`},
	},
	"ModgateModRulesSlow": {
		fires: []string{histogram("controller_runtime_webhook_latency_seconds", `webhook="/dragnet-webhook"`, slow)},
		quiet: []string{
			histogram("controller_runtime_webhook_latency_seconds", `webhook="/dragnet-webhook"`, fast),
			histogram("controller_runtime_webhook_latency_seconds", `webhook="/v1/admit"`, slow),
		},
	},
	"ModgateRuleFailures": {
		fires: []string{`modgate_rule_failures_total{kind="ModRule",failure="budget"} 0x20 1x10`},
		quiet: []string{`modgate_rule_failures_total{kind="ModRule",failure="budget"} 5x30`},
	},
	"ModgatePolicyBroken": {
		fires: []string{`modgate_policies_broken{instance="a"} 0x30` + "\n" + `modgate_policies_broken{instance="b"} 1x30`},
		quiet: []string{`modgate_policies_broken 0x30`},
	},
	"ModgatePolicyDemoted": {
		fires: []string{`modgate_policy_demoted{kind="ModRule",name="shop/slow"} 1x30`},
		quiet: []string{`modgate_policy_demoted{kind="ModRule",name="shop/slow"} 0x30`},
	},
	"ModgateCertificateExpiring": {
		// A case is evaluated at 1740 s.
		fires: []string{`modgate_certificate_not_after_seconds{pod="a"} 9000000x30` + "\n" +
			`modgate_certificate_not_after_seconds{pod="b"} 600000x30`},
		quiet: []string{`modgate_certificate_not_after_seconds 700000x30`, build},
	},
	"ModgateUndecided": {
		fires: []string{
			`modgate_undecided_reviews_total{webhook="/dragnet-webhook",cause="no_slot"} 0+1x30`,
			`modgate_undecided_reviews_total{webhook="/v1/policies/validate",cause="panic"} 0+1x30`,
		},
		quiet: []string{
			`modgate_undecided_reviews_total{webhook="/dragnet-webhook",cause="no_slot"} 7x30`,
			`controller_runtime_webhook_requests_total{webhook="/dragnet-webhook",code="200"} 0+1x30`,
		},
	},
	// The rules are those of two Deployments, each with a leader.
	"ModgateNoLeader": {
		fires: []string{
			`modgate_leader{pod="a"} 0x30` + "\n" + `modgate_leader{pod="b"} 0x30`,
			leader("modgate", "1x30") + "\n" + leader("modgate-audit", "0x30"),
			leader("modgate", "0x30") + "\n" + leader("modgate-audit", "1x30"),
			// modgate-audit is gone.
			running("modgate") + "\n" + leader("modgate", "1x30"),
		},
		quiet: []string{
			`modgate_leader{pod="a"} 0x30` + "\n" + `modgate_leader{pod="b"} 1x30`,
			build,
			running("modgate") + "\n" + leader("modgate", "1x30") + "\n" + leader("modgate-audit", "1x30"),
			// A new Pod of modgate-audit takes a moment.
			running("modgate") + "\n" + leader("modgate", "1x30") + "\n" + leader("modgate-audit", "1x20 _x3 0x2 1x5"),
		},
	},
	"ModgateQueueing": {
		fires: []string{histogram("modgate_queue_seconds", `webhook="/v1/admit"`, slow)},
		quiet: []string{histogram("modgate_queue_seconds", `webhook="/v1/admit"`, fast)},
	},
	"ModgateAuditStale": {
		fires: []string{
			`gatekeeper_audit_last_run_end_time 1x30`,
			// The first audit does not end.
			since("1x30"),
			// The Pod that audited is gone.
			since("1x30") + "\n" + `gatekeeper_audit_last_run_end_time 0+60x10 _x20`,
		},
		quiet: []string{
			`gatekeeper_audit_last_run_end_time 0+60x30`,
			since("1x30") + "\n" + `gatekeeper_audit_last_run_end_time 0+60x30`,
			// Another Pod takes over, and its first audit comes with the next interval.
			since("1x30") + "\n" + `gatekeeper_audit_last_run_end_time 0+60x26 _x4`,
			// Every Pod is new.
			since("_x27 1600x3"),
			// Another program is old.
			build + "\n" + `process_start_time_seconds{job="other",instance="b"} 1x30`,
			build,
		},
	},
	"ModgateProviderBroken": {
		fires: []string{`gatekeeper_providers{status="error"} 1x30`},
		quiet: []string{`gatekeeper_providers{status="error"} 0x30`, `gatekeeper_providers{status="active"} 1x30`},
	},
	"ModgateExportDropping": {
		fires: []string{
			`gatekeeper_admission_export_dropped_count_total{reason="queue_full"} 0+1x30`,
			`modgate_audit_export_unpublished_total 0+1x30`,
		},
		quiet: []string{`gatekeeper_admission_export_dropped_count_total{reason="queue_full"} 3x30`},
	},
	"ModgateFileDescriptors": {
		fires: []string{build + "\n" + `process_open_fds{job="modgate",instance="a"} 90x30` + "\n" +
			`process_max_fds{job="modgate",instance="a"} 100x30`},
		quiet: []string{
			build + "\n" + `process_open_fds{job="modgate",instance="a"} 10x30` + "\n" +
				`process_max_fds{job="modgate",instance="a"} 100x30`,
			// Another program's.
			`process_open_fds{job="other",instance="b"} 90x30` + "\n" + `process_max_fds{job="other",instance="b"} 100x30`,
		},
	},
}

// MODGATE_RULES names the file with the spec of the PrometheusRule.
func rules(t *testing.T) []rule {
	path := os.Getenv("MODGATE_RULES")
	if path == "" {
		t.Skip("MODGATE_RULES names no rules")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// What Prometheus itself says of them: names, labels, templates, durations.
	if _, errs := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.Default()); len(errs) != 0 {
		t.Fatal(errs)
	}
	var file struct {
		Groups []struct {
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var found []rule
	for _, group := range file.Groups {
		found = append(found, group.Rules...)
	}
	return found
}

func fires(t *testing.T, expr, series string, at time.Duration) bool {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m\n  "+strings.ReplaceAll(series, "\n", "\n  "))
	defer storage.Close()
	engine := promqltest.NewTestEngineWithOpts(t, promql.EngineOpts{
		MaxSamples: 10000, Timeout: time.Minute,
	})
	query, err := engine.NewInstantQuery(context.Background(), storage, nil, expr, time.Unix(0, 0).Add(at))
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	result := query.Exec(context.Background())
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	vector, err := result.Vector()
	if err != nil {
		t.Fatal(err)
	}
	return len(vector) > 0
}

// healthy is what a healthy installation has beside the series of a case.
func healthy(series string) string {
	if strings.Contains(series, "modgate_build_info") {
		return series
	}
	return series + "\n" + build
}

func TestAlerts(t *testing.T) {
	seen := map[string]bool{}
	found := rules(t)
	for _, rule := range found {
		cases, ok := all[rule.Alert]
		if !ok {
			t.Errorf("%s has no case", rule.Alert)
			continue
		}
		seen[rule.Alert] = true
		if len(cases.fires) == 0 || len(cases.quiet) == 0 {
			t.Errorf("%s lacks a case in which it fires, or one in which it does not", rule.Alert)
		}
		// Prometheus tells of an alert when it has held for so long.
		var held model.Duration
		if rule.For != "" {
			var err error
			if held, err = model.ParseDuration(rule.For); err != nil {
				t.Fatalf("%s: %v", rule.Alert, err)
			}
		}
		since := max(at-time.Duration(held), 0)
		for _, series := range cases.fires {
			if !fires(t, rule.Expr, series, at) || !fires(t, rule.Expr, series, since) {
				t.Errorf("%s does not fire: %s\n%s", rule.Alert, rule.Expr, series)
			}
		}
		for _, series := range cases.quiet {
			if fires(t, rule.Expr, series, at) {
				t.Errorf("%s fires: %s\n%s", rule.Alert, rule.Expr, series)
			}
		}
	}
	for name := range all {
		if !seen[name] {
			t.Errorf("there is no alert %s", name)
		}
	}
}

// TestOnlyItsOwn holds that what one alert is about makes no other one fire.
func TestOnlyItsOwn(t *testing.T) {
	found := rules(t)
	for name, cases := range all {
		for _, series := range cases.fires {
			if name != "ModgateDown" {
				series = healthy(series)
			}
			for _, rule := range found {
				if rule.Alert != name && fires(t, rule.Expr, series, at) {
					t.Errorf("%s fires on what %s is about: %s", rule.Alert, name, series)
				}
			}
		}
	}
}
