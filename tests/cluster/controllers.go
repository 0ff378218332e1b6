package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/scheme"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

const (
	resync  = 10 * time.Minute
	workers = 4
	// New kinds are seen this fast; a cluster takes 30 s.
	discoveryPeriod = 2 * time.Second
)

// startControllers runs the controllers that tests see the effect of: without them namespaces
// stay Terminating, what belongs to a deleted owner stays, and policies have no type checking.
func startControllers(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	shared := informers.NewSharedInformerFactory(client, resync)
	sharedMetadata := metadatainformer.NewSharedInformerFactory(metadataClient, resync)
	informersStarted := make(chan struct{})

	namespaces := namespace.NewNamespaceController(
		ctx, client, metadataClient, client.Discovery().ServerPreferredNamespacedResources,
		shared.Core().V1().Namespaces(), resync, corev1.FinalizerKubernetes,
	)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	garbage, err := garbagecollector.NewGarbageCollector(
		ctx, client, metadataClient, mapper, garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(shared, sharedMetadata), informersStarted,
	)
	if err != nil {
		return err
	}
	schemas := resolver.NewDefinitionsSchemaResolver(
		openapi.GetOpenAPIDefinitions, scheme.Scheme, apiextensions.Scheme,
	).Combine(&resolver.ClientDiscoveryResolver{Discovery: client.Discovery()})
	statuses, err := validatingadmissionpolicystatus.NewController(
		shared.Admissionregistration().V1().ValidatingAdmissionPolicies(),
		client.AdmissionregistrationV1().ValidatingAdmissionPolicies(),
		&validating.TypeChecker{SchemaResolver: schemas, RestMapper: mapper},
	)
	if err != nil {
		return err
	}
	shared.Start(ctx.Done())
	sharedMetadata.Start(ctx.Done())
	close(informersStarted)
	go namespaces.Run(ctx, workers)
	go statuses.Run(ctx, workers)
	go garbage.Run(ctx, workers, discoveryPeriod)
	go garbage.Sync(ctx, client.Discovery(), discoveryPeriod)
	return nil
}
