//! The commands, in the order in which they are run. Later cases find what earlier ones made.

/// Some commands that show one thing.
pub(super) struct Case {
    pub(super) sentence: &'static str,
    pub(super) steps: &'static [Step],
}

/// One command.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// The words after `kubectl`.
    pub(super) command: &'static str,
    /// How it must end.
    pub(super) ending: Ending,
    /// What of it must be the same on both servers.
    pub(super) shown: Shown,
    /// A command that is run while this one watches; this one is ended afterwards.
    pub(super) meanwhile: Option<&'static str>,
}

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Well,
    Badly,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Every word.
    Everything,
    /// Only whether it succeeds: the words are about what only one of the servers has.
    Ending,
}

const fn step(command: &'static str) -> Step {
    Step { command, ending: Ending::Well, shown: Shown::Everything, meanwhile: None }
}

const fn refused(command: &'static str) -> Step {
    Step { ending: Ending::Badly, ..step(command) }
}

/// Only the ending is compared.
const fn roughly(step: Step) -> Step {
    Step { shown: Shown::Ending, ..step }
}

const fn watched(command: &'static str, meanwhile: &'static str) -> Step {
    Step { meanwhile: Some(meanwhile), ..step(command) }
}

pub(super) const SCRIPT: &[Case] = &[
    Case {
        sentence: "what is served can be discovered and explained",
        steps: &[
            step("api-resources --api-group=machine.sapcloud.io"),
            step("api-resources --api-group=policy"),
            step("api-resources --api-group=apps --verbs=watch --no-headers --namespaced -o name --sort-by=name"),
            step("explain machine.spec"),
            step("explain machinedeployment.spec.strategy --recursive"),
            step("auth can-i delete nodes"),
            roughly(step("api-versions")),
            roughly(step("explain node.spec.taints")),
            refused("explain machine.nonsense"),
            refused("get nonsense"),
        ],
    },
    Case {
        sentence: "apply creates, changes and leaves alone, with validation on",
        steps: &[
            step("apply -f @machine"),
            step("apply -f @machine"),
            step("apply -f @machine-changed"),
            step("get machine m1 -o jsonpath={.metadata.labels}{.spec}"),
            step("apply -f @config"),
            step("apply -f @config-changed"),
            step("get cm c1 -o jsonpath={.data}{.metadata.labels}"),
            step("apply -f @deployment"),
            step("apply -f @deployment"),
            step("apply -f @deployment-changed"),
            step(
                "get deployment d1 -o jsonpath={.spec.replicas}{.spec.template.spec.containers[*].name}{.spec.template.spec.containers[*].image}",
            ),
            step("apply view-last-applied cm c1"),
        ],
    },
    Case {
        sentence: "fields that nobody knows are refused by name",
        steps: &[
            refused("apply -f @machine-unknown-field"),
            refused("create -f @machine-unknown-field"),
            refused("create -f @machine-invalid"),
            refused("apply -f @pod-unknown-field"),
            refused("create -f @pod-unknown-field"),
            step("create -f @machine-unknown-field --validate=warn"),
            step("delete machine m2"),
        ],
    },
    Case {
        sentence: "objects that kubectl makes itself are taken",
        steps: &[
            step("create namespace ns1"),
            step("get ns ns1"),
            step("create configmap c2 --from-literal=a=b"),
            step("get configmap c2 -o yaml"),
            step("create secret generic s1 --from-literal=a=b"),
            step("get secret s1 -o yaml"),
            step("create serviceaccount sa1"),
            step("create poddisruptionbudget b2 --selector=app=x --min-available=50%"),
            step("get poddisruptionbudget b2"),
            step("create priorityclass pc1 --value=7 --description=seven"),
            step("get priorityclass pc1"),
            step("create deployment d2 --image=none.invalid/none:1 --replicas=0"),
            step("get deployment d2 -o wide"),
            refused("create configmap c2"),
        ],
    },
    Case {
        sentence: "nodes are shown, labelled, tainted and cordoned",
        steps: &[
            step("create -f @node"),
            step("patch node n1 --type=merge -p {\"spec\":{\"taints\":null}}"),
            step("get nodes"),
            step("get nodes -o wide"),
            step("get node n1 -o name"),
            step("label node n1 a=b"),
            refused("label node n1 a=c"),
            step("label node n1 a=c --overwrite"),
            step("label node n1 a-"),
            step("annotate node n1 note=text"),
            step("taint node n1 k=v:NoSchedule"),
            refused("taint node n1 k=v:NoSchedule"),
            step("taint node n1 k=w:NoSchedule --overwrite"),
            step("get node n1 -o jsonpath={.spec.taints}"),
            step("taint node n1 k-"),
            step("cordon n1"),
            step("cordon n1"),
            step("get nodes"),
            step("uncordon n1"),
            step("get nodes --show-labels"),
            roughly(step("describe node n1")),
        ],
    },
    Case {
        sentence: "all three sorts of patches do what they say",
        steps: &[
            step("patch node n1 --type=strategic -p {\"metadata\":{\"labels\":{\"s\":\"1\"}}}"),
            step(
                "patch node n1 --subresource=status -p {\"status\":{\"conditions\":[{\"type\":\"Disk\",\"status\":\"False\"}]}}",
            ),
            step("get node n1 -o jsonpath={.status.conditions[*].type}"),
            step(
                "patch node n1 --subresource=status -p {\"status\":{\"conditions\":[{\"$patch\":\"delete\",\"type\":\"Disk\"}]}}",
            ),
            step("get node n1 -o jsonpath={.status.conditions[*].type}"),
            step("patch node n1 --type=json -p [{\"op\":\"remove\",\"path\":\"/metadata/labels/s\"}]"),
            refused("patch node n1 --type=json -p [{\"op\":\"test\",\"path\":\"/metadata/name\",\"value\":\"x\"}]"),
            step("patch machine m1 --type=merge -p {\"metadata\":{\"labels\":{\"s\":\"1\"}}}"),
            step("patch machine m1 --type=json -p [{\"op\":\"remove\",\"path\":\"/metadata/labels/s\"}]"),
            roughly(refused("patch machine m1 --type=strategic -p {\"metadata\":{\"labels\":{\"s\":\"1\"}}}")),
            step(
                "patch machine m1 --subresource=status --type=merge -p {\"status\":{\"currentStatus\":{\"phase\":\"Running\"}}}",
            ),
            step("patch machine m1 --type=merge -p {\"metadata\":{\"labels\":{\"s\":\"1\"}}} --dry-run=server"),
            step("patch machine m1 --type=merge -p {}"),
        ],
    },
    Case {
        sentence: "lists are shown in columns, selected, sorted and paged",
        steps: &[
            step("get machines"),
            step("get machines -o wide"),
            step("get mc,cm -l pool=b"),
            step("get mc -l pool!=b"),
            step("get cm --field-selector=metadata.name=c1"),
            refused("get cm --field-selector=data.one=1"),
            step("get cm --chunk-size=1 -o name --sort-by=.metadata.name"),
            step("get machine m1 -o yaml"),
            step("get machine -o custom-columns=N:.metadata.name,P:.status.currentStatus.phase"),
            refused("get machine nobody"),
            step("get machine nobody --ignore-not-found"),
            step("get secrets"),
            step("get leases"),
            roughly(step("get all")),
            roughly(step("describe machine m1")),
        ],
    },
    Case {
        sentence: "a watch shows what happens",
        steps: &[
            watched("get machines -w", "label machine m1 seen=yes"),
            watched("get cm c1 -w --output-watch-events", "delete cm c1"),
            watched("get nodes -w -o name", "annotate node n1 seen=yes"),
        ],
    },
    Case {
        sentence: "replicas are scaled",
        steps: &[
            step("create -f @machine-set"),
            step("scale machineset set --replicas=3"),
            step("get machineset set -o jsonpath={.spec.replicas}"),
            refused("scale machineset set --replicas=4 --current-replicas=1"),
            step("scale deployment d1 --replicas=0"),
            step("get deployment d1"),
            refused("scale machine m1 --replicas=1"),
        ],
    },
    Case {
        sentence: "replace is held to the version it names",
        steps: &[
            step("create -f @config"),
            step("replace -f @config-changed"),
            refused("replace -f @config-stale"),
            step("get cm c1 -o jsonpath={.data}"),
            refused("create -f @config"),
        ],
    },
    Case {
        sentence: "waiting ends when what was waited for is there",
        steps: &[
            step("wait --for=condition=Established crd/machines.machine.sapcloud.io --timeout=10s"),
            step("wait --for=jsonpath={.status.currentStatus.phase}=Running machine/m1 --timeout=10s"),
            step("wait --for=condition=Ready node/n1 --timeout=10s"),
            refused("wait --for=jsonpath={.status.currentStatus.phase}=Failed machine/m1 --timeout=4s"),
            refused("wait --for=condition=Ready node/nobody --timeout=1s"),
        ],
    },
    Case {
        sentence: "deletion waits for finalizers and says what is gone",
        steps: &[
            step("create -f @config-kept"),
            step("delete cm kept --wait=false"),
            refused("wait --for=delete cm/kept --timeout=4s"),
            step("patch cm kept --type=merge -p {\"metadata\":{\"finalizers\":null}}"),
            step("wait --for=delete cm/kept --timeout=10s"),
            step("delete cm c1 c2"),
            refused("delete cm c1"),
            step("delete cm c1 --ignore-not-found"),
            step("delete machines -l pool=b --dry-run=server"),
            step("delete machines -l pool=b"),
            step("delete machineset --all"),
            step("delete secret/s1 serviceaccount/sa1 priorityclass/pc1"),
        ],
    },
    Case {
        sentence: "a drain evicts, and a budget holds it up",
        steps: &[
            step("create -f @pods"),
            step("get pods -o wide"),
            step(
                "patch pod p1 --subresource=status --type=merge -p {\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}",
            ),
            step("create -f @budget"),
            // A budget nobody has counted yet makes clients wait ten times ten seconds; this one is counted, and spent.
            step(
                "patch pdb b1 --subresource=status --type=merge -p {\"status\":{\"observedGeneration\":1,\"disruptionsAllowed\":0,\"currentHealthy\":1,\"desiredHealthy\":1,\"expectedPods\":1}}",
            ),
            step("get pdb"),
            step("drain n1 --force --grace-period=0 --pod-selector=app=b"),
            step("get pods"),
            refused("drain n1"),
            refused("drain n1 --force --grace-period=0 --timeout=3s"),
            step("get pods"),
            step("delete pdb b1"),
            step("drain n1 --force --grace-period=0"),
            step("get pods"),
            step("get nodes"),
            step("uncordon n1"),
            step("delete node n1"),
        ],
    },
    Case {
        sentence: "what has no kubelet behind it is refused",
        steps: &[
            step("create -f @pods"),
            roughly(refused("logs p1 -c main")),
            roughly(refused("exec p1 -c main -- true")),
            step("delete pods --all --force"),
        ],
    },
];
