import { isDeepStrictEqual } from 'node:util';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { describeSettings } from '../../config/settings-schema.ts';
import { actorOf, type RouteAccess } from '../../dashboard/actors.ts';
import { errorSchema, field, outcomeSchema, unknownId } from '../../dashboard/answer.ts';
import { bodyText, documentedBody, ID_PARAMS, parameter, WHY } from '../../dashboard/input.ts';
import { reasonOf } from '../../dashboard/interventions.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, type DashboardServices, servicePart } from '../../dashboard/services.ts';
import { warningsOfPlan } from '../../deploys/plan-warnings.ts';
import { HttpError } from '../../errors.ts';
import { formatIssue, type ManifestIssue } from '../../manifest/issues.ts';
import { MAX_MANIFEST_BYTES } from '../../manifest/load.ts';
import { ACCESS, DEPLOY_ACTIONS, type DeployOutcome, OVERRIDES, type Override } from '../../model/finding.ts';
import { findingSchema, findingView, findRevision } from '../revisions/service.ts';

const deployOutcomeSchema = z
  .object({
    flowId: field.id(),
    name: z.string(),
    version: z.string(),
    action: z.enum(DEPLOY_ACTIONS),
    class: findingSchema.shape.class.describe('The most severe class among the findings; safe if there are none.'),
    access: z
      .enum(ACCESS)
      .describe(
        'Whether more deliveries pass than before, by what the gates judge by, with settings and defaults filled in; what ' +
          'cannot be compared is wider. wider on a route that exists is refused unless allow=access is given.',
      ),
    routes: z
      .array(
        z.object({
          route: z.string().describe('Slugs, and the id of the flow, that lead to one trigger.'),
          trigger: z.string(),
          access: z.enum(ACCESS),
          before: z.string().nullable().describe('Who gets in, in words; null for a route that is new.'),
          after: z.string().nullable().describe('null for a route that is gone.'),
          reasons: z.array(z.string()),
        }),
      )
      .describe('The routes by which more or fewer get in.'),
    revision: field
      .integer()
      .nullable()
      .describe('The deployed revision afterwards; null if the flow is not deployed.'),
    runsInFlight: field.integer().describe('Runs of the flow, and of others that have pinned it and may start it.'),
    findings: z.array(findingSchema).describe('The most severe first.'),
    refusal: z.string().nullable().describe('Why it was refused, and what to do.'),
    rollbackTo: field
      .integer()
      .optional()
      .describe('The earlier revision that has this manifest; absent if the newest revision has it, or none.'),
    warning: z
      .string()
      .optional()
      .describe('Why a manifest of the folder was not deployed: it equals an earlier revision.'),
  })
  .meta({ id: 'DeployOutcome' });

const deployedSchema = deployOutcomeSchema
  .extend({ warnings: z.array(z.string()).describe('Warnings about the manifest, as `sluice check` prints them.') })
  .meta({ id: 'Deployed' });

/** Answers of a deploy. */
export interface DeployAnswers {
  readonly Deployed: z.output<typeof deployedSchema>;
}

const reloadSchema = z
  .object({
    outcomes: z.array(deployOutcomeSchema),
    unreadable: z
      .array(
        z.object({
          file: z.string(),
          flowId: field.id().nullable().describe('null where the file does not say it.'),
          name: z.string(),
          why: z.string().describe('The first mistake, and how many more there are.'),
        }),
      )
      .describe('Manifests that cannot be read. Their flows go on as they were deployed.'),
    warnings: z
      .array(z.string())
      .describe(
        'Issues of manifests, flows whose manifest was removed, and mistakes in settings that were read again.',
      ),
  })
  .meta({ id: 'Reload' });

const issueSchema = z.object({
  severity: z.enum(['error', 'warning']),
  file: z.string(),
  path: z.string(),
  message: z.string(),
  line: z.int().optional().describe('Where the value is in the text of the manifest, from 1.'),
  column: z.int().optional(),
});

const deployedTogetherSchema = reloadSchema
  .omit({ unreadable: true })
  .extend({
    issues: z
      .array(issueSchema)
      .optional()
      .describe(
        'For a dry run: the warnings about the manifests, with their places, and paths that the flows read but that the newest stored deliveries did not have.',
      ),
  })
  .meta({ id: 'DeployedTogether' });

export const invalidSchema = errorSchema
  .extend({ issues: z.array(issueSchema).optional() })
  .meta({ id: 'InvalidManifest' });

const SHAPES =
  'A 409 has the shape of the answer; the 400 of an invalid manifest adds `issues`: what is wrong and where.';

const query = z.strictObject({
  allow: parameter
    .freeText(40)
    .transform((given, context): Override[] =>
      (given ?? '').split(',').flatMap((part) => {
        const word = part.trim().toLowerCase();
        const found = OVERRIDES.find((name) => name === word);
        if (found === undefined && word !== '') {
          context.addIssue({
            code: 'custom',
            message: `"${word}" is not accepted; expected ${OVERRIDES.join(', ')} or several of them`,
          });
        }
        return found ?? [];
      }),
    )
    .meta({
      description:
        'caution, breaking, rollback, access, or several separated by commas: what is deployed instead of refused. caution ' +
        'and breaking are classes of findings; rollback is a manifest that equals an earlier revision; access is a route by ' +
        'which more deliveries pass than before.',
    }),
  dryRun: parameter.flag().meta({ description: 'Only reports what would happen; false by default.' }),
  reason: WHY.reason.meta({ description: 'Why it is deployed; kept with the revision and in the activity.' }),
});

/** The fields that distinguish a manifest from other JSON. */
export const manifestShape = z.looseObject({
  id: field.id().describe('The id in the URL.'),
  name: z.string().optional(),
  version: z.string(),
  triggers: z.record(z.string(), z.unknown()).optional(),
  timeoutSeconds: field.integer().optional(),
  concurrency: field.integer().optional(),
  steps: z.record(z.string(), z.unknown()).optional().describe('As `sluice schema` describes them, like triggers.'),
});

/** A flow with a separate id, so that the command in the documentation changes no deployed flow. */
export const EXAMPLE_MANIFEST = {
  id: 'c3f1b7d2-5a48-4e0b-8d6c-2b9f14e07a35',
  name: 'Hello',
  version: '1.0.0',
  triggers: { byHand: { type: 'manual' } },
  steps: { greet: { type: 'LogMessage', inputs: { message: 'hello' } } },
};

const DEPLOY: RouteAccess = {
  scope: 'deploy',
  isPlan: ({ query: given }) => (given as z.output<typeof query>).dryRun,
};

/** The person who deploys, and the reason. */
function deployedBy(request: FastifyRequest) {
  return { actor: actorOf(request).name, reason: reasonOf(request) };
}

/** Deploys manifests without a restart. */
const deployRoutes: ApiRoutes = (app, services) => {
  reloadRoute(app, services);
  deployTogetherRoute(app, services);
  restoreRoute(app, services);
  deleteRoute(app, services);

  app.put(
    '/flows/api/flows/:id',
    {
      ...route('flows', {
        operationId: 'deployFlow',
        limit: 'refused',
        access: DEPLOY,
        summary: 'Deploys a manifest, or refuses it if it would harm runs in flight or history',
        description: `Creates the flow if it does not exist. ${SHAPES}`,
        params: ID_PARAMS,
        query,
        body: documentedBody(manifestShape, EXAMPLE_MANIFEST),
        answer: deployedSchema,
        refusalShapes: { 400: invalidSchema, 409: deployedSchema },
      }),
      bodyLimit: MAX_MANIFEST_BYTES,
    },
    async (request, reply) => {
      const { id: flowId } = request.params;
      const text = bodyText(request);
      const name = services.catalog.find(flowId)?.record.name ?? flowId;
      const { flow, issues } = services.deployment.parse(text, name);
      if (flow === undefined) return refuse(reply, issues);
      if (flow.manifest.id !== flowId) {
        const message = `is ${flow.manifest.id}, but the URL has ${flowId}`;
        return refuse(reply, [{ severity: 'error', file: `${name}.json`, path: 'id', message }]);
      }
      const { allow, dryRun: isPlan } = request.query;
      const unseen = await warningsOfPlan(flow, services.store);
      const [outcome] = await services.deployment.deploy([flow], { allow, isPlan, ...deployedBy(request) });
      if (outcome === undefined) throw new Error('a deploy of one flow had no outcome');
      const warnings = [...issues, ...unseen].map(formatIssue);
      return reply.code(outcome.action === 'refused' ? 409 : 200).send({ ...outcomeView(outcome), warnings });
    },
  );
};

/** Goes back to an earlier revision. The number in the path shows that this is intended. */
const restoreRoute: ApiRoutes = (app, services) => {
  app.post(
    '/flows/api/flows/:id/revisions/:revision/restore',
    route('flows', {
      operationId: 'restoreRevision',
      limit: 'refused',
      access: DEPLOY,
      summary: 'Deploys the manifest of an earlier revision as a new one, or refuses it as a deploy would',
      description:
        'rollback is always allowed here. If a secret that the revision has in plain text cannot be had any more, nothing ' +
        `is deployed. ${SHAPES} The newest revision gets 409 ` +
        'with an error.',
      params: z.object({ id: parameter.guid(), revision: parameter.positiveNumber() }),
      query,
      answer: deployedSchema,
      refusals: [404],
      refusalShapes: { 400: invalidSchema, 409: z.union([deployedSchema, errorSchema]) },
    }),
    async (request, reply) => {
      const { id: flowId, revision: number } = request.params;
      const revision = await findRevision(flowId, number, services);
      const deployed = await services.store.findFlow(flowId);
      if (deployed?.revision === number && deployed.deletedAt === undefined) {
        throw new HttpError('revision_in_force', `Revision ${number} is in force; restore an earlier one`);
      }
      const { flow, issues } = await services.deployment.parseRevision(revision);
      if (flow === undefined || issues.some(({ severity }) => severity === 'error')) return refuse(reply, issues);
      const { allow, dryRun: isPlan } = request.query;
      const [outcome] = await services.deployment.deploy([flow], {
        allow: [...allow, 'rollback'],
        isPlan,
        ...deployedBy(request),
      });
      if (outcome === undefined) throw new Error('a deploy of one flow had no outcome');
      const warnings = issues.map(formatIssue);
      return reply.code(outcome.action === 'refused' ? 409 : 200).send({ ...outcomeView(outcome), warnings });
    },
  );
};

/** Takes a flow out of service. Its stored data stays, and a deploy brings it back. */
const deleteRoute: ApiRoutes = (app, { deployment, store }) => {
  app.delete(
    '/flows/api/flows/:id',
    route('flows', {
      operationId: 'deleteFlow',
      limit: 'refused',
      access: { scope: 'deploy' },
      summary: 'Deletes a flow: its schedules end and its slugs are free',
      description:
        'Runs in flight finish. Runs, deliveries and revisions stay readable until retention removes them, and what was ' +
        'accepted stays known: a deploy of the same id, which brings the flow back, or of another flow with its slug accepts ' +
        'nothing again. Refused with 409 while a manifest of the folder has it (`flow_in_folder`), other flows start it ' +
        '(`flow_in_use`) or deliveries of it are held (`deliveries_held`).',
      params: ID_PARAMS,
      query: z.strictObject(WHY),
      answer: outcomeSchema.extend({ runsInFlight: field.integer().describe('Runs that go on to their ends.') }),
      refusals: [404, 409],
    }),
    async ({ params: { id: flowId } }) => {
      const deletion = await deployment.delete(flowId);
      if (deletion.kind !== 'deleted') throw notDeleted(flowId, deletion);
      const { runsInFlight } = await store.readLiveFlow(flowId);
      return { success: true, message: 'The flow is deleted', runsInFlight };
    },
  );
};

type Deletion = Awaited<ReturnType<DashboardServices['deployment']['delete']>>;

function notDeleted(flowId: string, deletion: Exclude<Deletion, { kind: 'deleted' }>): HttpError {
  switch (deletion.kind) {
    case 'unknown':
      return unknownId('flow', flowId);
    case 'inFolder':
      return new HttpError('flow_in_folder', `${deletion.file} has this flow; remove it from the folder first`);
    case 'unreadable':
      return new HttpError(
        'folder_unreadable',
        `Whether a manifest of the folder has this flow cannot be told: ${deletion.issues.map(formatIssue).join('; ')}`,
      );
    case 'needed':
      return new HttpError(
        'flow_in_use',
        `Other flows start this one: ${deletion.callers.map(({ name, id }) => `${name} (${id})`).join(', ')}; change them first`,
      );
    case 'holding':
      return new HttpError(
        'deliveries_held',
        `${deletion.held} accepted deliveries of this flow are held; enable or resume it, so that their runs start, or discard them`,
      );
  }
}

const deployTogetherRoute: ApiRoutes = (app, { deployment, store }) => {
  app.put(
    '/flows/api/flows',
    {
      ...route('flows', {
        operationId: 'deployFlows',
        limit: 'refused',
        access: DEPLOY,
        summary: 'Deploys manifests together, so that a slug can move from one flow to another',
        description: `Refused flows stay as they are, all others change at once. If any manifest is invalid, nothing is deployed. ${SHAPES}`,
        query: query.extend({
          wholeFolder: parameter.flag().meta({
            description:
              'The body contains all flows: a deployed flow without a manifest may be the old id of a new one.',
          }),
        }),
        body: documentedBody(z.array(manifestShape), [EXAMPLE_MANIFEST]),
        answer: deployedTogetherSchema,
        refusalShapes: { 400: invalidSchema, 409: deployedTogetherSchema },
      }),
      bodyLimit: MAX_MANIFEST_BYTES,
    },
    async (request, reply) => {
      const text = bodyText(request);
      const { flows, issues } = await deployment.parseAll(text);
      if (issues.some(({ severity }) => severity === 'error')) return refuse(reply, issues);
      const { allow, dryRun: isPlan, wholeFolder: isWholeFolder } = request.query;
      const outcomes = await deployment.deploy(flows, { allow, isPlan, isWholeFolder, ...deployedBy(request) });
      const isRefused = outcomes.some(({ action }) => action === 'refused');
      const warnings = issues.map(formatIssue);
      const found = [...issues];
      if (isPlan) for (const flow of flows) found.push(...(await warningsOfPlan(flow, store)));
      const told = { outcomes: outcomes.map(outcomeView), warnings, ...(isPlan && { issues: issuesView(found) }) };
      return reply.code(isRefused ? 409 : 200).send(told);
    },
  );
};

const reloadRoute: ApiRoutes = (app, { deployment }) => {
  app.post(
    '/flows/api/flows/reload',
    route('flows', {
      operationId: 'reloadFlows',
      limit: 'refused',
      access: DEPLOY,
      summary:
        'Reads the folder of manifests and all secrets again and deploys what changed; 409 if a flow was refused, or a manifest or a setting cannot be read',
      description:
        'Reads the file of variables (`.env`), credentials, targets of alerts and the secrets of all deployed flows again too; a ' +
        'dry run does not. If one of the settings cannot be read, the former ones stay in force. A manifest that cannot be read concerns its flow alone. With SLUICE_REFUSED_DEPLOYS=fail, or if the ' +
        `folder itself cannot be read, nothing is deployed: 400. ${SHAPES}`,
      query,
      answer: reloadSchema,
      refusalShapes: { 400: invalidSchema, 409: reloadSchema },
    }),
    async (request, reply) => {
      const { allow, dryRun: isPlan } = request.query;
      const {
        isValid,
        issues,
        unreadable,
        outcomes,
        warnings: found,
        areSettingsRead,
      } = await deployment.reload({
        allow,
        isPlan,
        ...deployedBy(request),
      });
      if (!isValid) return refuse(reply, issues);
      const isDone = areSettingsRead && unreadable.length === 0 && outcomes.every(({ action }) => action !== 'refused');
      const warnings = [...issues.map(formatIssue), ...found];
      const told = unreadable.map(({ file, flowId = null, name, why }) => ({ file, flowId, name, why }));
      return reply.code(isDone ? 200 : 409).send({ outcomes: outcomes.map(outcomeView), unreadable: told, warnings });
    },
  );
};

/** The answer to a manifest with errors: nothing is deployed. */
export function refuse(reply: FastifyReply, issues: readonly ManifestIssue[]) {
  const errors = issues.filter(({ severity }) => severity === 'error');
  return reply.code(400).send({
    statusCode: 400,
    error: 'Bad Request',
    message: `The manifest cannot be deployed: ${errors.map(formatIssue).join('; ')}`,
    reason: 'invalid_manifest',
    issues: issuesView(issues),
  });
}

function issuesView(issues: readonly ManifestIssue[]): z.output<typeof issueSchema>[] {
  return issues.map(({ severity, file, path, message, line, column }) => ({
    severity,
    file,
    path,
    message,
    ...(line === undefined ? {} : { line, column }),
  }));
}

function outcomeView(outcome: DeployOutcome): z.output<typeof deployOutcomeSchema> {
  const routes = outcome.routes.map(({ reasons, ...route }) => ({ ...route, reasons: [...reasons] }));
  return { ...outcome, routes, findings: outcome.findings.map(findingView) };
}

export const deploys = servicePart({
  name: 'deploys',
  routes: [deployRoutes],
  start: ({ inForce, logger }) => ({
    onSettings(settings) {
      const kept = describeSettings().filter(
        ({ name, isReadAgain = false }) =>
          // A reload does not read the address.
          !isReadAgain && name !== 'host' && !isDeepStrictEqual(settings[name], inForce.current()[name]),
      );
      if (kept.length === 0) return;
      const names = kept.map(({ variable }) => variable);
      logger.warn({ settings: names }, `changed and in force from the next start on: ${names.join(', ')}`);
    },
  }),
});
