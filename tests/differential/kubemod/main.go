// Command kubemod answers as KubeMod's webhooks do, one question a line: the peer of
// `cargo xtask differential --of kubemod`. ../README.md describes questions and answers.
//
// It is built against a checkout of KubeMod, whose go.mod `cargo xtask differential --kubemod PATH` extends.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	jsonpatch "github.com/evanphx/json-patch"
	"github.com/kubemod/kubemod/api/v1beta1"
	"github.com/kubemod/kubemod/core"
	"github.com/kubemod/kubemod/expressions"
	admissionv1 "k8s.io/api/admission/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logs "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// limit ends a question that the original does not end itself.
const limit = time.Minute

type question struct {
	ClusterNamespace string            `json:"clusterNamespace"`
	ModRules         []json.RawMessage `json:"modRules"`
	Objects          []json.RawMessage `json:"objects"`
	Requests         []json.RawMessage `json:"requests"`
	Times            int               `json:"times"`
}

type outcome struct {
	Rule            string `json:"rule"`
	DecodeError     string `json:"decodeError,omitempty"`
	ValidationError string `json:"validationError,omitempty"`
	StoreError      string `json:"storeError,omitempty"`
}

type response struct {
	Allowed bool            `json:"allowed"`
	Code    int32           `json:"code"`
	Reason  string          `json:"reason"`
	Object  json.RawMessage `json:"object,omitempty"`
	Broken  string          `json:"broken,omitempty"`
}

type answer struct {
	Responses    [][]response `json:"responses,omitempty"`
	RuleOutcomes []outcome    `json:"ruleOutcomes,omitempty"`
	Error        string       `json:"error,omitempty"`
	Panic        string       `json:"panic,omitempty"`
	Timeout      bool         `json:"timeout,omitempty"`
}

// cluster answers for the API server; nothing but Get is asked of it.
type cluster struct {
	client.Client
	objects map[string]*unstructured.Unstructured
}

func (c *cluster) Get(_ context.Context, key client.ObjectKey, obj runtime.Object) error {
	into := obj.(*unstructured.Unstructured)
	kind := into.GetKind()
	found, ok := c.objects[kind+"/"+key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
	}
	into.Object = found.DeepCopy().Object
	return nil
}

// office is the manager, of which the handler takes the client.
type office struct {
	manager.Manager
	cluster *cluster
}

func (o *office) GetClient() client.Client { return o.cluster }

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			return
		}
		done := make(chan answer, 1)
		go func() { done <- ask(line) }()
		var got answer
		select {
		case got = <-done:
		case <-time.After(limit):
			got = answer{Timeout: true}
		}
		if err := out.Encode(got); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if got.Timeout {
			// The evaluation goes on in this process: the caller starts another.
			return
		}
	}
}

func ask(line []byte) (got answer) {
	defer func() {
		if cause := recover(); cause != nil {
			got = answer{Panic: fmt.Sprint(cause)}
		}
	}()
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: "question: " + err.Error()}
	}
	log := logs.NullLogger{}
	factory := core.NewModRuleStoreItemFactory(expressions.NewKubeModJSONPathLanguage(), log)
	store := core.NewModRuleStore(factory, core.ClusterModRulesNamespace(asked.ClusterNamespace), log)
	for _, text := range asked.ModRules {
		if refused := load(store, text); refused != nil {
			got.RuleOutcomes = append(got.RuleOutcomes, *refused)
		}
	}
	if len(got.RuleOutcomes) > 0 {
		return got
	}
	objects := map[string]*unstructured.Unstructured{}
	for _, text := range asked.Objects {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(text, object); err != nil {
			return answer{Error: "object: " + err.Error()}
		}
		objects[object.GetKind()+"/"+object.GetName()] = object
	}
	handler := core.NewDragnetWebhookHandler(&office{cluster: &cluster{objects: objects}}, store, log)
	for _, text := range asked.Requests {
		var responses []response
		for range max(asked.Times, 1) {
			responses = add(responses, respond(handler, text))
		}
		got.Responses = append(got.Responses, responses)
	}
	return got
}

// load does what the API server, the webhooks for ModRules and the controller do with a rule.
func load(store *core.ModRuleStore, text []byte) *outcome {
	var head struct {
		Metadata struct{ Namespace, Name string } `json:"metadata"`
	}
	_ = json.Unmarshal(text, &head)
	refused := &outcome{Rule: head.Metadata.Namespace + "/" + head.Metadata.Name}
	rule := &v1beta1.ModRule{}
	if err := json.Unmarshal(text, rule); err != nil {
		refused.DecodeError = err.Error()
		return refused
	}
	rule.Default()
	if err := rule.ValidateCreate(); err != nil {
		refused.ValidationError = err.Error()
		return refused
	}
	if err := store.Put(rule); err != nil {
		refused.StoreError = err.Error()
		return refused
	}
	return nil
}

func respond(handler *core.DragnetWebhookHandler, text []byte) (got response) {
	defer func() {
		if cause := recover(); cause != nil {
			got = response{Broken: fmt.Sprint(cause)}
		}
	}()
	var request admissionv1.AdmissionRequest
	if err := json.Unmarshal(text, &request); err != nil {
		return response{Broken: "request: " + err.Error()}
	}
	subject := request.Object.Raw
	if request.Operation == admissionv1.Delete {
		subject = request.OldObject.Raw
	}
	full := admission.Request{AdmissionRequest: request}
	answered := handler.Handle(context.Background(), full)
	if err := answered.Complete(full); err != nil {
		return response{Broken: err.Error()}
	}
	got = response{Allowed: answered.Allowed, Code: answered.Result.Code, Reason: string(answered.Result.Reason)}
	if !got.Allowed {
		return got
	}
	got.Object = subject
	if len(answered.Patch) > 0 {
		patch, err := jsonpatch.DecodePatch(answered.Patch)
		if err != nil {
			return response{Broken: err.Error()}
		}
		if got.Object, err = patch.Apply(subject); err != nil {
			return response{Broken: err.Error()}
		}
	}
	return got
}

// add leaves out a response that is known.
func add(known []response, got response) []response {
	text, err := json.Marshal(got)
	for _, each := range known {
		other, _ := json.Marshal(each)
		if err == nil && string(other) == string(text) {
			return known
		}
	}
	return append(known, got)
}
