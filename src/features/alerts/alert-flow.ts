import { errorAt } from '../../manifest/issues.ts';
import { type LoadedFlow, type ManifestRules, parseManifest } from '../../manifest/load.ts';
import { startedFlowsIn } from '../../manifest/sub-flows.ts';
import { ALERT_FLOW_ID } from '../../model/manifest.ts';

/** Eight attempts take half an hour. */
const ALERT_FLOW = {
  id: ALERT_FLOW_ID,
  name: 'Sluice alerts',
  version: '1',
  steps: {
    send: {
      type: 'SendAlert',
      inputs: {
        target: `\${trigger.body.target}`,
        text: `\${trigger.body.text}`,
        link: `\${trigger.body.link}`,
        lines: `\${trigger.body.lines}`,
        more: `\${trigger.body.more}`,
        // Messages that an earlier release queued have no alert.
        alert: `\${has(trigger.body.alert) ? trigger.body.alert : null}`,
      },
      retry: { maxAttempts: 8, backoffSeconds: 5, factor: 3, maxBackoffSeconds: 600 },
      timeoutSeconds: 60,
    },
  },
};

/** Refuses a manifest that would replace the flow of the alerts, or that starts its runs with other messages. */
export const leavesAlertFlow: ManifestRules['checks'][number] = ({ manifest }) =>
  [{ flowId: manifest.id, path: ['id'] }, ...startedFlowsIn(manifest)]
    .filter(({ flowId }) => flowId === ALERT_FLOW_ID)
    .map(({ path }) =>
      errorAt(path, 'is the id of the flow that Sluice tells of alerts with; no manifest may name it'),
    );

/** The flow whose runs notify the targets. */
export function loadAlertFlow(rules: ManifestRules): LoadedFlow {
  const { flow, issues } = parseManifest(JSON.stringify(ALERT_FLOW), 'alerts.json', {
    ...rules,
    checks: rules.checks.filter((check) => check !== leavesAlertFlow),
  });
  if (flow === undefined) throw new Error(`The flow of the alerts cannot be loaded: ${JSON.stringify(issues)}`);
  return flow;
}
