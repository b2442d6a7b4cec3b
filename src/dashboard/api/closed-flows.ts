import { type DeployedFlow, startsRuns } from '../../flows/catalog.ts';
import { subFlowsOf } from '../../model/manifest.ts';

type Flows = readonly Pick<DeployedFlow, 'record' | 'loaded'>[];

/** Flows that other flows start, and that start no runs now: told before a run needs them. */
export function closedFlows(flows: Flows) {
  return [...closedFailureFlows(flows), ...closedSubFlows(flows)];
}

function closedFailureFlows(flows: Flows) {
  return flows.flatMap(({ record: { name }, loaded }) => {
    const { onFailure } = loaded.manifest;
    const target = flows.find(({ record }) => record.id === onFailure)?.record;
    if (onFailure === undefined || (target !== undefined && startsRuns(target))) return [];
    const state = target === undefined ? 'not deployed' : target.isEnabled ? 'draining' : 'disabled';
    const message = `If a run of ${name} fails, nothing starts: its failure flow ${target?.name ?? onFailure} is ${state}`;
    return [{ kind: 'failure_flow_closed' as const, ...warningAbout(onFailure, message) }];
  });
}

/** A flow that is drained is opened again soon, and what is in flight may still run it. */
function closedSubFlows(flows: Flows) {
  return flows.flatMap(({ record: { name }, loaded }) =>
    subFlowsOf(loaded.manifest.steps).flatMap((flowId) => {
      const target = flows.find(({ record }) => record.id === flowId)?.record;
      if (target?.isEnabled === true) return [];
      const state = target === undefined ? 'not deployed' : 'disabled';
      const message = `Runs of ${name} fail at steps that run ${target?.name ?? flowId}: that flow is ${state}`;
      return [{ kind: 'sub_flow_closed' as const, ...warningAbout(flowId, message) }];
    }),
  );
}

function warningAbout(flowId: string, message: string) {
  return { severity: 'warning' as const, message, link: `/flows/flows/${flowId}` };
}
