//! What the chart is rendered with, and the overlay that says the same.

/// Values of the chart, and how `deploy/` says them.
pub(super) struct Combination {
    /// As for `helm --set`, or `--set-json` for a list.
    pub(super) values: &'static [&'static str],
    /// Folders of `deploy/`.
    pub(super) resources: &'static [&'static str],
    /// Folders of `deploy/` that are components.
    pub(super) components: &'static [&'static str],
    /// What else the overlay says, in YAML.
    pub(super) more: &'static str,
}

/// All that are compared.
pub(super) const COMBINATIONS: &[Combination] = &[
    Combination { values: &["driver.kind=aws"], resources: &["one-process"], components: &["aws"], more: "" },
    Combination {
        values: &["form=two-processes", "driver.kind=aws-own"],
        resources: &["two-processes"],
        components: &["aws-driver"],
        more: "",
    },
    Combination {
        values: &["form=two-processes", "driver.kind=openstack"],
        resources: &["two-processes"],
        components: &["openstack-driver"],
        more: "",
    },
    Combination {
        values: &["driver.kind=virtual"],
        resources: &["one-process"],
        components: &["virtual-cloud"],
        more: "",
    },
    Combination {
        values: &[
            "form=two-processes",
            "driver.kind=own",
            "driver.image.repository=registry.example/driver",
            "driver.image.tag=v1.0.0",
            "separateTarget=true",
            "image.repository=registry.example/millwright",
            "image.tag=v9",
        ],
        resources: &["two-processes"],
        components: &["driver", "separate-target"],
        more: "images:
- {name: millwright-driver, newName: registry.example/driver, newTag: v1.0.0}
- {name: millwright, newName: registry.example/millwright, newTag: v9}
",
    },
    Combination {
        values: &["driver.kind=aws", "networkPolicy.prometheusNamespace=observability"],
        resources: &["one-process"],
        components: &["aws"],
        more: r#"patches:
- target: {kind: NetworkPolicy}
  patch: '[{"op": "replace", "path": "/spec/ingress/0/from/0/namespaceSelector/matchLabels/kubernetes.io~1metadata.name", "value": "observability"}]'
"#,
    },
    // As deploy/examples/aws has it, and everything that can be had beside it.
    Combination {
        values: &[
            "driver.kind=aws",
            "serviceAccount.annotations.eks\\.amazonaws\\.com/role-arn=arn:aws:iam::111122223333:role/millwright",
            r#"env=[{"name": "MILLWRIGHT_AWS_AMBIENT_CREDENTIALS", "value": "true"}]"#,
            "admission=deny",
            "flowControl=true",
            "monitoring.serviceMonitor=true",
            "monitoring.alerts=true",
            "monitoring.dashboards=true",
        ],
        resources: &["examples/aws", "admission/deny", "flowcontrol", "monitoring", "alerts", "dashboards"],
        components: &[],
        more: "",
    },
    Combination {
        values: &["driver.kind=aws", "admission=warn", "tracing.endpoint=http://collector.observability:4318"],
        resources: &["one-process", "admission/warn"],
        components: &["aws", "tracing"],
        more: "",
    },
];

/// Values that are refused, and what is said of them.
pub(super) const REFUSED: &[(&[&str], &str)] = &[
    (&[], "driver.kind"),
    (&["driver.kind=gcp"], "/driver/kind"),
    (&["driver.kind=own"], "driver.image.repository: set the image of your driver"),
    (&["driver.kind=aws", "form=three"], "form"),
    (&["driver.kind=aws", "admission=maybe"], "admission"),
    (&["driver.kind=aws", "networkPolicy.prometheusNamespace="], "prometheusNamespace"),
    (&["driver.kind=aws", "replicas=none"], "replicas"),
    (&["driver.kind=aws", "imagge.tag=v1"], "imagge"),
];
