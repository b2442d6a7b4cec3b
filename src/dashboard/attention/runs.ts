import { ALERT_FLOW_ID } from '../../model/manifest.ts';
import { type Finding, LOOK_BACK_HOURS, nameOf, type Situation, startOf } from './finding.ts';

export function failedRuns({ ended, flows, now }: Situation): Finding<'failed_runs' | 'alerts_not_delivered'>[] {
  const failed = ended.filter(({ status }) => status === 'Failed' || status === 'TimedOut');
  return [...new Set(failed.map(({ flowId }) => flowId))].map((flowId) => {
    const count = failed.reduce((sum, each) => sum + (each.flowId === flowId ? each.count : 0), 0);
    const since = startOf(now, LOOK_BACK_HOURS);
    const link = `/flows/runs?status=Failed&flowId=${flowId}&since=${since}`;
    if (flowId === ALERT_FLOW_ID) {
      const message = `${count === 1 ? '1 alert was' : `${count} alerts were`} not delivered in the last 24 hours`;
      return { kind: 'alerts_not_delivered', message, link };
    }
    const message = `${runs(count)} of ${nameOf(flowId, flows)} failed in the last 24 hours`;
    return { kind: 'failed_runs', message, link };
  });
}

function runs(count: number): string {
  return count === 1 ? '1 run' : `${count} runs`;
}
