import { z } from 'zod';
import { field, isoTime, listOf, toList, unknownId } from '../../dashboard/answer.ts';
import { ID_PARAMS, IN_ORDER, PAGING, parameter, SPAN } from '../../dashboard/input.ts';
import { route } from '../../dashboard/route.ts';
import { type ApiRoutes, type DashboardServices, servicePart } from '../../dashboard/services.ts';
import { HttpError } from '../../errors.ts';
import { KEPT_REVISIONS } from '../../flows/retention.ts';
import { diffSnapshots } from '../../manifest/diff.ts';
import { ACCESS, FINDING_CLASSES, type Finding, OVERRIDES } from '../../model/finding.ts';
import { MANIFEST_SOURCES } from '../../model/manifest.ts';
import type { RevisionRecord, RevisionSummary } from '../../store/store.ts';
import { revisionsStore } from './store.ts';

const classSchema = z.enum(FINDING_CLASSES);

export const findingSchema = z
  .object({
    rule: z.string(),
    class: classSchema,
    access: z
      .enum(ACCESS)
      .optional()
      .describe('What the difference does to who gets in by webhooks; absent if it says nothing about that.'),
    path: z.string(),
    before: field.declared().optional(),
    after: field.declared().optional(),
    message: z.string(),
    consequence: z.string(),
    advice: z.string().optional(),
    live: z.string().optional().describe('The runs that the change affects.'),
    recipe: z
      .object({
        title: z.string(),
        steps: z.array(z.string()),
        patch: field.declared().optional().describe('A JSON merge patch (RFC 7396) onto the new manifest.'),
        removableFrom: z.string().optional(),
      })
      .optional(),
  })
  .meta({ id: 'Finding' });

const revisionSchema = z
  .object({
    flowId: field.id(),
    revision: field.integer(),
    version: z.string(),
    hash: z.string().describe('SHA-256 of the manifest with its secrets masked.'),
    isRemoved: z
      .boolean()
      .describe(
        `Whether its manifest was removed: the newest ${KEPT_REVISIONS} of a flow are kept, and those that stored runs use. It can no longer be shown, compared or restored, but is still recognised if it is deployed again.`,
      ),
    createdAt: field.time(),
    source: z
      .enum(MANIFEST_SOURCES)
      .nullable()
      .describe('Where the manifest came from; null if Sluice deployed its own flow, that of the alerts.'),
    findings: z
      .array(findingSchema)
      .describe('Differences from the previous revision; empty if the manifest was removed.'),
    actor: z.string().nullable().describe('Who deployed it; sluice at a start or from a watched folder.'),
    reason: z.string().nullable().describe('Why, if somebody said so.'),
    access: z.enum(ACCESS).describe('What it did to who gets in by webhooks.'),
    overrides: z.array(z.enum(OVERRIDES)).describe('What was allowed although it would have been refused.'),
    runs: field.integer().describe('Stored runs of this revision; 10000 means 10000 or more.'),
    runsInFlight: field.integer(),
  })
  .meta({ id: 'Revision' });

const oneSchema = z
  .object({
    flowId: field.id(),
    revision: field.integer(),
    version: z.string(),
    hash: z.string(),
    createdAt: field.time(),
    source: z
      .enum(MANIFEST_SOURCES)
      .nullable()
      .describe('Where the manifest came from; null if Sluice deployed its own flow, that of the alerts.'),
    manifest: field.declared().describe('Secrets masked.'),
  })
  .meta({ id: 'RevisionDetail' });

const diffSchema = z
  .object({
    flowId: field.id(),
    from: field.integer(),
    to: field.integer(),
    differences: z.array(
      z.object({
        path: z.string(),
        kind: z.enum(['added', 'removed', 'changed']),
        before: field.declared().optional(),
        after: field.declared().optional(),
      }),
    ),
  })
  .meta({ id: 'RevisionDiff' });

/** Answers of these operations. */
export interface RevisionAnswers {
  readonly Revision: z.output<typeof revisionSchema>;
  readonly RevisionDiff: z.output<typeof diffSchema>;
}

/** Lists and compares the revisions of a flow. */
const revisionRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/flows/:id/revisions',
    route('flows', {
      operationId: 'listRevisions',
      limit: 'flow',
      summary: 'Revisions of a flow, newest first, with what each changed',
      params: ID_PARAMS,
      query: z.strictObject({ ...SPAN, ...PAGING }).refine(...IN_ORDER),
      answer: listOf(revisionSchema),
      refusals: [404],
    }),
    async ({ params, query }) => {
      const page = await services.store.of(revisionsStore).listRevisions({ ...query, flowId: params.id });
      if (page === undefined) throw unknownId('flow', params.id);
      return toList(page.items.map(revisionView), page, query);
    },
  );

  app.get(
    '/flows/api/flows/:id/revisions/:revision',
    route('flows', {
      operationId: 'getRevision',
      limit: 'flow',
      summary: 'One revision with its manifest',
      params: z.object({ id: parameter.guid(), revision: parameter.positiveNumber() }),
      answer: oneSchema,
      refusals: [404],
    }),
    async ({ params }) => {
      return manifestView(await findRevision(params.id, params.revision, services));
    },
  );

  app.get(
    '/flows/api/flows/:id/revisions/:from/diff/:to',
    route('flows', {
      operationId: 'diffRevisions',
      limit: 'flow',
      summary: 'Where two revisions differ',
      params: z.object({
        id: parameter.guid(),
        from: parameter.positiveNumber().describe('Revision to start from.'),
        to: parameter.positiveNumber().describe('Revision to compare it with.'),
      }),
      answer: diffSchema,
      refusals: [404],
    }),
    async ({ params: { id: flowId, from, to } }) => {
      const before = await findRevision(flowId, from, services);
      const after = await findRevision(flowId, to, services);
      return {
        flowId,
        from,
        to,
        differences: [...diffSnapshots(before.snapshot, after.snapshot)],
      };
    },
  );
};

export function manifestView({ snapshot, createdAt, needs, ...record }: RevisionRecord): z.output<typeof oneSchema> {
  return { ...record, createdAt: isoTime(createdAt), manifest: snapshot };
}

export async function findRevision(
  flowId: string,
  revision: number,
  { store }: Pick<DashboardServices, 'store'>,
): Promise<RevisionRecord> {
  const found = await store.findRevision(flowId, revision);
  if (found?.snapshot !== undefined) return found;
  if (found !== undefined) {
    throw new HttpError(
      'revision_removed',
      `The manifest of revision ${revision} was removed: the newest ${KEPT_REVISIONS} of a flow are kept, and those that stored ` +
        `runs use. Revision ${revision} was deployed at ${isoTime(found.createdAt)} and had the version ${found.version}`,
    );
  }
  if ((await store.findFlow(flowId)) === undefined) throw unknownId('flow', flowId);
  throw new HttpError('unknown_revision', `The flow ${flowId} has no revision ${revision}`);
}

function revisionView({ createdAt, findings, overrides, ...rest }: RevisionSummary): z.output<typeof revisionSchema> {
  return { ...rest, createdAt: isoTime(createdAt), findings: findings.map(findingView), overrides: [...overrides] };
}

export function findingView(finding: Finding): z.output<typeof findingSchema> {
  const { recipe, ...rest } = finding;
  return recipe === undefined ? rest : { ...rest, recipe: { ...recipe, steps: [...recipe.steps] } };
}

export const revisions = servicePart({ name: 'revisions', routes: [revisionRoutes] });
