package alerts

import (
	"encoding/json"
	"os"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// object is what is needed of any object.
type object struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Spec            struct {
		Ports []struct {
			Name string `json:"name"`
		} `json:"ports"`
		Template struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
			Spec     struct {
				Containers []struct {
					Ports []struct {
						Name string `json:"name"`
					} `json:"ports"`
				} `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// rendered returns the objects of a kind in the file that MODGATE_OBJECTS names, a list in JSON.
func rendered(t *testing.T, kind string) []json.RawMessage {
	t.Helper()
	path := os.Getenv("MODGATE_OBJECTS")
	if path == "" {
		t.Skip("MODGATE_OBJECTS names no objects")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	var found []json.RawMessage
	for _, raw := range all {
		var it object
		if err := json.Unmarshal(raw, &it); err != nil {
			t.Fatal(err)
		}
		if it.Kind == kind {
			found = append(found, raw)
		}
	}
	return found
}

// read takes an object apart as the operator's own type, which has to know every field.
func read[T any](t *testing.T, raw json.RawMessage) T {
	t.Helper()
	var it T
	if err := yaml.UnmarshalStrict(raw, &it); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return it
}

func one[T any](t *testing.T, kind string) T {
	t.Helper()
	found := rendered(t, kind)
	if len(found) != 1 {
		t.Fatalf("%d objects of kind %s", len(found), kind)
	}
	return read[T](t, found[0])
}

// selects says whether a selector takes labels, as the operator asks: without a selector nothing, with an empty one all.
func selects(t *testing.T, selector *metav1.LabelSelector, set map[string]string) bool {
	t.Helper()
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Matches(labels.Set(set))
}

// prometheus is the resource of an installation of the operator, with what it selects monitors and rules by.
func prometheus(t *testing.T, selector string) monitoring.PrometheusSpec {
	t.Helper()
	text := "serviceMonitorSelector: " + selector + "\npodMonitorSelector: " + selector + "\nruleSelector: " + selector +
		"\nserviceMonitorNamespaceSelector: {}\npodMonitorNamespaceSelector: {}\nruleNamespaceSelector: {}\n"
	var spec monitoring.PrometheusSpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

// TestSelected: the objects are rendered with the label `release: kps`, which the Prometheus of kube-prometheus-stack
// selects by where its release is called `kps`.
func TestSelected(t *testing.T) {
	kinds := map[string]func(monitoring.PrometheusSpec) *metav1.LabelSelector{
		"ServiceMonitor": func(it monitoring.PrometheusSpec) *metav1.LabelSelector { return it.ServiceMonitorSelector },
		"PodMonitor":     func(it monitoring.PrometheusSpec) *metav1.LabelSelector { return it.PodMonitorSelector },
		"PrometheusRule": func(it monitoring.PrometheusSpec) *metav1.LabelSelector { return it.RuleSelector },
	}
	for kind, selector := range kinds {
		for _, raw := range rendered(t, kind) {
			var it object
			if err := json.Unmarshal(raw, &it); err != nil {
				t.Fatal(err)
			}
			for text, expected := range map[string]bool{
				"{matchLabels: {release: kps}}":                                        true,
				"{matchLabels: {release: other}}":                                      false,
				"{matchExpressions: [{key: release, operator: In, values: [a, kps]}]}": true,
				"{matchExpressions: [{key: release, operator: DoesNotExist}]}":         false,
				"{matchLabels: {app.kubernetes.io/name: modgate}}":                     true,
				"{}":   true,
				"null": false,
			} {
				if found := selects(t, selector(prometheus(t, text)), it.Metadata.Labels); found != expected {
					t.Errorf("%s, selector %s: %v, labels %v", kind, text, found, it.Metadata.Labels)
				}
			}
			// Without the label of the values it is not selected.
			delete(it.Metadata.Labels, "release")
			if selects(t, selector(prometheus(t, "{matchLabels: {release: kps}}")), it.Metadata.Labels) {
				t.Errorf("%s is selected without the label", kind)
			}
		}
	}
}

// TestServiceMonitor: it selects the Service of metrics, and no other, and names a port of it.
func TestServiceMonitor(t *testing.T) {
	monitor := one[monitoring.ServiceMonitor](t, "ServiceMonitor")
	selected := 0
	for _, raw := range rendered(t, "Service") {
		var service object
		if err := json.Unmarshal(raw, &service); err != nil {
			t.Fatal(err)
		}
		if !selects(t, &monitor.Spec.Selector, service.Metadata.Labels) {
			continue
		}
		selected++
		if names := monitor.Spec.NamespaceSelector.MatchNames; len(names) != 1 || names[0] != service.Metadata.Namespace {
			t.Errorf("it looks into %v, the Service is in %s", names, service.Metadata.Namespace)
		}
		for _, endpoint := range monitor.Spec.Endpoints {
			has := false
			for _, port := range service.Spec.Ports {
				has = has || port.Name == endpoint.Port
			}
			if !has {
				t.Errorf("%s has no port %s", service.Metadata.Name, endpoint.Port)
			}
		}
	}
	if selected != 1 || len(monitor.Spec.Endpoints) != 1 {
		t.Errorf("it selects %d Services", selected)
	}
}

// TestPodMonitor: it selects the Pods of every Deployment, and names a port of them.
func TestPodMonitor(t *testing.T) {
	monitor := one[monitoring.PodMonitor](t, "PodMonitor")
	deployments := rendered(t, "Deployment")
	if len(deployments) != 2 {
		t.Fatalf("%d Deployments", len(deployments))
	}
	for _, raw := range deployments {
		var deployment object
		if err := json.Unmarshal(raw, &deployment); err != nil {
			t.Fatal(err)
		}
		template := deployment.Spec.Template
		if !selects(t, &monitor.Spec.Selector, template.Metadata.Labels) {
			t.Errorf("it does not select the Pods of %s", deployment.Metadata.Name)
		}
		for _, endpoint := range monitor.Spec.PodMetricsEndpoints {
			has := false
			for _, port := range template.Spec.Containers[0].Ports {
				has = has || (endpoint.Port != nil && port.Name == *endpoint.Port)
			}
			if !has {
				t.Errorf("%s has no such port", deployment.Metadata.Name)
			}
		}
	}
	// The Pod of `helm test` has no metrics.
	for _, raw := range rendered(t, "Pod") {
		var pod object
		if err := json.Unmarshal(raw, &pod); err != nil {
			t.Fatal(err)
		}
		if selects(t, &monitor.Spec.Selector, pod.Metadata.Labels) {
			t.Errorf("it selects Pod %s", pod.Metadata.Name)
		}
	}
}

// TestRule: the operator knows every field.
func TestRule(t *testing.T) {
	rule := one[monitoring.PrometheusRule](t, "PrometheusRule")
	if len(rule.Spec.Groups) != 1 || len(rule.Spec.Groups[0].Rules) < 12 {
		t.Errorf("%v", rule.Spec.Groups)
	}
}
