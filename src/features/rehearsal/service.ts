import { z } from 'zod';
import { actorOf } from '../../dashboard/actors.ts';
import { field, isoTime } from '../../dashboard/answer.ts';
import { bodyText, documentedBody, parseJsonBody } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, servicePart } from '../../dashboard/services.ts';
import { patternsFor } from '../../dashboard/sight.ts';
import { HttpError } from '../../errors.ts';
import { MAX_MANIFEST_BYTES } from '../../manifest/load.ts';
import { isJsonObject, type Json, own, parseJson } from '../../model/json.ts';
import { EXAMPLE_MANIFEST, invalidSchema, manifestShape, refuse } from '../deploys/service.ts';
import { DIFFERENCE_KINDS } from './compare.ts';
import { createRehearser } from './rehearse.ts';
import { type FlowRehearsal, isOfContents } from './tally.ts';

const countedSchema = z.object({
  what: z.string(),
  count: field.integer(),
  deliveryIds: z.array(field.id()).describe('At most five of them.'),
});

const changeSchema = z.object({
  path: field.content(z.string()).describe('Place in the request, as body.amount; empty for the whole.'),
  before: field.json().optional().describe('Absent where the deployed revision has no such place.'),
  after: field.json().optional(),
});

const differenceSchema = z.object({
  kind: z.enum(DIFFERENCE_KINDS),
  at: z.string().describe('Path of the step, as key.0.child in a loop and go/charge in a sub-run; gates or end.'),
  changes: z.array(changeSchema),
});

const rehearsalSchema = z
  .object({
    flowId: field.id(),
    name: z.string(),
    revision: field.integer().describe('The deployed one, which the manifest is compared with.'),
    deliveries: field.integer().describe('Those that were looked at.'),
    same: field.integer(),
    differing: field.integer(),
    groups: z
      .array(
        z.object({
          kind: differenceSchema.shape.kind,
          at: z.string().describe('As in a difference, with * for the numbers of iterations.'),
          what: field
            .content(z.array(z.string()))
            .describe('Places of the request that differ, or what became of it before and after.'),
          count: field.integer(),
          deliveryIds: z.array(field.id()),
          examples: z
            .array(
              z.object({
                deliveryId: field.id(),
                runId: field.id().nullable(),
                receivedAt: field.time(),
                differences: z.array(differenceSchema),
              }),
            )
            .describe('The first of them in full; empty without the scope read, or where there are very many.'),
        }),
      )
      .describe('Differing deliveries by their first difference, the most frequent first.'),
    skipped: z.array(countedSchema).describe('Deliveries that were not compared, by why.'),
    unknown: z
      .array(countedSchema)
      .describe('Of what was compared: steps whose answer is not known, and gates that cannot be judged again.'),
    isStopped: z.boolean().describe('The time was over before all of them were looked at.'),
  })
  .meta({ id: 'Rehearsal' });

/** Answer to the rehearsal of a deploy. */
export interface RehearsalAnswers {
  readonly Rehearsal: z.output<typeof rehearsalSchema>;
}

/** The result of an attempt that would have called out. */
const answerSchema = z.strictObject({
  output: z.unknown().optional().describe('Of an HttpRequest: status, headers and body of the answer.'),
  error: z.strictObject({ code: z.string(), message: z.string(), retryable: z.boolean() }).optional(),
  request: z.looseObject({}).optional().describe('The answer is for this request alone.'),
});

const rehearsalBody = z.strictObject({
  manifests: z.array(manifestShape).max(1000).describe('As they would be deployed together.'),
  deliveries: z.int().min(1).max(1000).default(200).describe('How many of the newest of each flow.'),
  answers: z
    .record(z.string(), z.record(z.string(), z.array(answerSchema)))
    .default({})
    .describe(
      'By id of the flow and path of the step, the first attempt first: for calls that no run has an answer to.',
    ),
});

const WHY_NOT = {
  own: 'You rehearse another deploy now; try again when it has ended',
  full: 'Two others rehearse deploys now; try again when one has ended',
};

/** Most characters of the message about unknown names. */
const MOST_SAID = 2000;

/** Before a deploy, reports what it would change for past deliveries. */
const rehearsalRoutes: ApiRoutes = (app, services) => {
  const { deployment, extensions, isStopping } = services;
  const rehearser = createRehearser({
    ...services,
    defaultMode: services.settings.enforcementMode,
    handlers: extensions.handlers,
    gates: extensions.offlineGates,
    openStore: services.openSimulationStore,
  });
  app.post(
    '/flows/api/flows/rehearse',
    {
      ...route('flows', {
        operationId: 'rehearseFlows',
        limit: 'refused',
        access: { scope: 'deploy', isPlan: () => true },
        summary: 'Runs stored deliveries through the deployed revisions and these manifests, and says what differs',
        description:
          'Steps get the answers that they once got; nothing is sent, waited for or stored. Only flows that are deployed ' +
          'and would change are rehearsed. Requests and bodies are shown to who has the scope `read` too. One at a time ' +
          'for each credential, and two in all: another gets 409 (`rehearsal_running`) meanwhile.',
        body: documentedBody(rehearsalBody, { manifests: [EXAMPLE_MANIFEST], deliveries: 200 }),
        answer: z.object({ flows: z.array(rehearsalSchema) }),
        refusals: [409],
        refusalShapes: { 400: invalidSchema },
      }),
      bodyLimit: MAX_MANIFEST_BYTES,
    },
    async (request, reply) => {
      const { deliveries } = parseJsonBody(request, rehearsalBody);
      // Parsed again, to keep numbers that a double would change.
      const given = parseJson(bodyText(request));
      const { flows, issues } = await deployment.parseAll(JSON.stringify(ownOf(given, 'manifests')));
      if (issues.some(({ severity }) => severity === 'error')) return refuse(reply, issues);
      const answers = (ownOf(given, 'answers') ?? {}) as Parameters<typeof rehearser.rehearse>[0]['answers'];
      const unknown = rehearser.unknownAnswers({ flows, answers });
      if (unknown.length > 0) {
        const lines = unknown.map(({ path, message }) => `body.${path}: ${message}`);
        throw new HttpError('invalid_request', lines.join('; ').slice(0, MOST_SAID));
      }
      const isWanted = () => !reply.raw.destroyed && !isStopping();
      const { name, credential = name } = actorOf(request);
      const rehearsed = await rehearser.rehearse({ flows, deliveries, answers, isWanted, credential });
      if (typeof rehearsed === 'string') {
        services.metrics.roomRefused.inc({ room: 'rehearsals' });
        throw new HttpError('rehearsal_running', WHY_NOT[rehearsed]);
      }
      const readsAll = patternsFor(request, 'read') === undefined;
      return { flows: rehearsed.map((one) => rehearsalView(one, readsAll)) };
    },
  );
};

function ownOf(given: Json, key: string): Json | undefined {
  return isJsonObject(given) ? own(given, key) : undefined;
}

function rehearsalView({ groups, ...rehearsal }: FlowRehearsal, readsAll: boolean): z.output<typeof rehearsalSchema> {
  return {
    ...rehearsal,
    skipped: rehearsal.skipped.map(countedView),
    unknown: rehearsal.unknown.map(countedView),
    groups: groups.map(({ what, deliveryIds, examples, ...group }) => ({
      ...group,
      what: readsAll || !isOfContents(group) ? [...what] : [],
      deliveryIds: [...deliveryIds],
      examples: !readsAll
        ? []
        : examples.map(({ receivedAt, differences, ...example }) => ({
            ...example,
            receivedAt: isoTime(receivedAt),
            differences: differences.map(({ changes, ...difference }) => ({ ...difference, changes: [...changes] })),
          })),
    })),
  };
}

function countedView({ deliveryIds, ...counted }: FlowRehearsal['skipped'][number]) {
  return { ...counted, deliveryIds: [...deliveryIds] };
}

export const rehearsal = servicePart({ name: 'rehearsal', routes: [rehearsalRoutes] });
