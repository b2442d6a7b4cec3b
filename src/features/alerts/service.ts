import { z } from 'zod';
import { isPostgres } from '../../config/database.ts';
import { field, isoTime } from '../../dashboard/answer.ts';
import { unreadiness } from '../../dashboard/api/service.ts';
import type { Finding, Situation } from '../../dashboard/attention/finding.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, type DashboardServices, type Host, rulesFor, servicePart } from '../../dashboard/services.ts';
import { startsRuns } from '../../flows/catalog.ts';
import { SEVERITIES } from '../../model/attention.ts';
import { ALERT_FLOW_ID, RUN_STATUSES } from '../../model/manifest.ts';
import { listAttention } from '../attention/service.ts';
import { type AlertState, countWaiting, NO_ALERTS } from './alert-plan.ts';
import { alertsAttention } from './attention.ts';
import { renewableWatch } from './renewable.ts';
import { alertsStepTypes } from './step-types.ts';
import { alertsStore } from './store.ts';
import { ALERT_KINDS, type AlertSettings, TARGET_TYPES } from './targets.ts';
import { type AlertWatch, createAlertWatch, noAlerts } from './watch.ts';

const alertTargetSchema = z
  .object({
    name: z.string(),
    type: z.enum(TARGET_TYPES),
    kinds: z.array(z.enum(ALERT_KINDS)),
    severities: z.array(z.enum(SEVERITIES)),
    flows: z.array(z.string()).nullable().describe('Ids or names; null for all.'),
    intervalSeconds: z.number(),
    waiting: field.integer().describe('Alerts that the next message will report.'),
    lastMessage: z
      .object({
        at: field.time(),
        runId: field.id(),
        status: z.enum(RUN_STATUSES).nullable().describe('The run that sends it; null if that run was removed.'),
      })
      .nullable(),
  })
  .meta({ id: 'AlertTarget' });

/** Answers of these operations. */
export interface AlertAnswers {
  readonly AlertTarget: z.output<typeof alertTargetSchema>;
}

/** Lists the targets, and whether alerts reach them. */
const alertRoutes: ApiRoutes = (app, { inForce, store, clock }) => {
  app.get(
    '/flows/api/alerts',
    route('service', {
      operationId: 'listAlertTargets',
      limit: 'refused',
      summary: 'The targets of alerts, with the result of the last message to each; empty if there are none',
      answer: z.array(alertTargetSchema),
    }),
    async () => {
      const { targets = [], repeatSeconds = 0 } = inForce().alerts ?? {};
      if (targets.length === 0) return [];
      const { state } = await store.of(alertsStore).readAlerts({ limit: 0 });
      const known = { ...NO_ALERTS, ...(state as unknown as AlertState | null) };
      const repeatMs = repeatSeconds * 1000;
      return Promise.all(
        targets.map(async (target) => {
          const { name, type, kinds, severities, flows = null, intervalSeconds } = target;
          const { sentAt = null, runId = null } = known.targets[name] ?? {};
          const run = runId === null ? undefined : await store.findRun(runId);
          return {
            name,
            type,
            kinds,
            severities,
            flows,
            intervalSeconds,
            waiting: countWaiting(target, { state: known, repeatMs, now: clock.now() }),
            lastMessage:
              sentAt === null || runId === null ? null : { at: isoTime(sentAt), runId, status: run?.status ?? null },
          };
        }),
      );
    },
  );
};

function alertsNotInForce(
  { flows }: Situation,
  { inForce }: Pick<DashboardServices, 'inForce'>,
): Finding<'alerts_not_in_force'>[] {
  const flow = flows.find(({ record }) => record.id === ALERT_FLOW_ID);
  const targets = inForce().alerts?.targets ?? [];
  if (targets.length === 0 || (flow !== undefined && startsRuns(flow.record))) return [];
  const closed = flow?.record.isEnabled === false ? 'disabled; enable it' : 'being drained; resume it';
  const why =
    flow === undefined ? 'the flow that tells them is not deployed' : `the flow ${flow.record.name} is ${closed}`;
  const message = `Nobody is told of anything, though SLUICE_ALERTS names targets: ${why}`;
  return [{ kind: 'alerts_not_in_force', message, link: `/flows/flows/${ALERT_FLOW_ID}` }];
}

function watchOf(alerts: AlertSettings | undefined, host: Host): AlertWatch {
  const { settings, extensions, store } = host;
  if (alerts === undefined || alerts.targets.length === 0) return noAlerts(store);
  return createAlertWatch({
    ...host,
    // No live events on PostgreSQL: a listener here would make the replicas report every run to each other.
    live: isPostgres(settings.databaseUrl) ? undefined : host.live,
    alerts,
    service: settings.serviceName,
    send: extensions.of(alertsStepTypes),
    rules: extensions.rules.folder,
    announce: (...given) => host.engine().announce(...given),
    pageUrl: () => alerts.pageUrl ?? host.pageUrl(),
    concerns: () => listAttention(host.dashboard()),
    unready: () => unreadiness(host.dashboard()),
    replica: isPostgres(settings.databaseUrl) ? `The replica ${store.replica}` : settings.serviceName,
  });
}

export const alerts = servicePart({
  name: 'alerts',
  routes: [alertRoutes],
  attention: rulesFor(alertsAttention, alertsNotInForce),
  start: (host) => {
    const watch = renewableWatch(host.settings.alerts, {
      make: (given) => watchOf(given, host),
      onRenewed: (alerts) => host.inForce.replace({ alerts }),
      logger: host.logger,
    });
    return {
      prepare: watch.prepare,
      begin: watch.start,
      onDeploys: watch.deployTold,
      onSettings: (settings) => void watch.renew(settings.alerts),
      stop: watch.stop,
    };
  },
});
