import { createPrivateKey } from 'node:crypto';
import { z } from 'zod';
import { isoTime, unknownId } from '../../dashboard/answer.ts';
import { parameter } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, type DashboardServices, servicePart } from '../../dashboard/services.ts';
import { sightOf } from '../../dashboard/sight.ts';
import type { DeliveryRecord } from '../../model/delivery.ts';
import { activityStore } from '../activity/store.ts';
import { interventionView } from '../activity/view.ts';
import { deliveryIn, deliveryView } from '../deliveries/service.ts';
import { adviceView, reviewerOf } from '../review/service.ts';
import { manifestView } from '../revisions/service.ts';
import { controlView, runView, triggerView } from '../runs/runs.ts';
import { findGraph, MAX_STEPS, stepPage } from '../runs/steps.ts';
import { type EvidencePart, evidenceSchema, sealEvidence } from './bundle.ts';

const MAX_INTERVENTIONS = 500;

/** Everything that a third party needs to verify that a delivery arrived as stored, and what followed. */
const evidenceRoutes: ApiRoutes = (app, services) => {
  const { store, clock, version, settings } = services;
  // Private, Ed25519.
  const key = settings.evidenceKey === undefined ? undefined : createPrivateKey(settings.evidenceKey);

  app.get(
    '/flows/api/webhooks/:deliveryId/evidence',
    route('deliveries', {
      operationId: 'getEvidence',
      limit: 'delivery',
      summary: 'A delivery and its run as one file, signed if SLUICE_EVIDENCE_KEY is set',
      description:
        'The stored bytes and headers, the result of each gate, the revision of the manifest, the run with its steps, and who intervened. `sluice evidence verify` checks it with only the public key.',
      params: z.object({ deliveryId: parameter.guid() }),
      answer: evidenceSchema,
      refusals: [404],
    }),
    async (request, reply) => {
      const { deliveryId } = request.params;
      const found = await store.findDelivery(deliveryId);
      if (found === undefined) throw unknownId('delivery', deliveryId);
      const record = deliveryIn(sightOf(request, services), found);
      const subject = { deliveryId, runId: record.runId, createdAt: isoTime(clock.now()), version };
      const bundle = sealEvidence(subject, await partsOf(record, services), key);
      void reply.header('content-disposition', `attachment; filename="evidence-${deliveryId}.json"`);
      return reply.type('application/json; charset=utf-8').send(Buffer.from(bundle) as never);
    },
  );
};

async function partsOf(record: DeliveryRecord, services: DashboardServices): Promise<EvidencePart[]> {
  const { store } = services;
  const parts: EvidencePart[] = [];
  const add = (name: string, value: object) => {
    parts.push({ name, mediaType: 'application/json', content: Buffer.from(JSON.stringify(value, null, 2)) });
  };
  const { body, bodyEncoding, bodyTruncated, ...delivery } = deliveryView(record);
  const { gateResults, signature } = adviceView(await reviewerOf(services).review(record));
  add('delivery.json', { ...delivery, gateResults, signature });
  const run = record.runId === null ? undefined : await store.findRun(record.runId);
  // The body of an accepted delivery is stored only with its run.
  const content = record.body ?? run?.trigger.body;
  if (content !== undefined) parts.push({ name: 'body', mediaType: 'application/octet-stream', content });
  if (run !== undefined) {
    const found = await findGraph(run.id, services);
    const steps = await stepPage(found, { skip: 0, take: MAX_STEPS }, services);
    const revision = await store.findRevision(run.flowId, run.revision);
    add('run.json', { ...(await runView(run, services)), control: controlView(run), ...triggerView(run) });
    add('steps.json', { steps: steps.items, stepsTotal: steps.total });
    // The revision exists as long as the run does.
    if (revision?.snapshot !== undefined) add('revision.json', manifestView(revision));
  }
  const activity = await Promise.all(
    [record.id, ...(run === undefined ? [] : [run.id])].map((target) =>
      store.of(activityStore).listInterventions({ target, skip: 0, take: MAX_INTERVENTIONS }),
    ),
  );
  add(
    'activity.json',
    activity.flatMap(({ items }) => items.map(interventionView)),
  );
  return parts;
}

export const evidence = servicePart({ name: 'evidence', routes: [evidenceRoutes] });
