import { z } from 'zod';
import { HttpError } from '../../errors.ts';
import { diffSnapshots } from '../../manifest/diff.ts';
import { shownSnapshot } from '../../manifest/secrets.ts';
import type { RevisionRecord, RevisionSummary } from '../../store/store.ts';
import { errorSchema, REFUSALS, unknownId } from '../error-responses.ts';
import { guid, NO_QUERY, PAGING, positiveNumber } from '../input.ts';
import type { ApiRoutes, DashboardServices } from '../services.ts';
import { findingSchema, findingView } from './finding-view.ts';
import { id, integer, isoTime, json, listOf, time, toList } from './formats.ts';

const tags = ['flows'];

export const revisionSchema = z
  .object({
    flowId: id(),
    revision: integer(),
    version: z.string(),
    hash: z.string().describe('SHA-256 of the manifest with its secrets masked.'),
    createdAt: time(),
    source: z.enum(['folder', 'api']).nullable().describe('Where the manifest came from; null for an early one.'),
    findings: z.array(findingSchema).describe('In what it differs from the revision before.'),
    overrides: z.array(z.enum(['caution', 'breaking', 'safe'])).describe('What was allowed although it was refused.'),
    runs: integer().describe('Kept runs that follow it; 10000 stands for that many or more.'),
    runsInFlight: integer(),
  })
  .meta({ id: 'Revision' });

const oneSchema = z
  .object({
    flowId: id(),
    revision: integer(),
    version: z.string(),
    hash: z.string(),
    createdAt: time(),
    source: z.enum(['folder', 'api']).nullable().describe('Where the manifest came from; null for an early one.'),
    manifest: json().describe('Secrets masked.'),
  })
  .meta({ id: 'RevisionDetail' });

export const diffSchema = z
  .object({
    flowId: id(),
    from: integer(),
    to: integer(),
    differences: z.array(
      z.object({
        path: z.string(),
        kind: z.enum(['added', 'removed', 'changed']),
        before: json().optional(),
        after: json().optional(),
      }),
    ),
  })
  .meta({ id: 'RevisionDiff' });

/** What a flow was and is. */
export const revisionRoutes: ApiRoutes = (app, services) => {
  app.get(
    '/flows/api/flows/:id/revisions',
    {
      schema: {
        tags,
        operationId: 'listRevisions',
        summary: 'Revisions of a flow, newest first, with what each changed',
        params: z.object({ id: guid() }),
        querystring: z.strictObject(PAGING),
        response: { 200: listOf(revisionSchema), ...REFUSALS, 404: errorSchema },
      },
    },
    async ({ params, query }) => {
      const page = await services.store.listRevisions({ flowId: params.id, skip: query.skip, take: query.take });
      if (page === undefined) throw unknownId('flow', params.id);
      return toList(page.items.map(revisionView), page.total, query);
    },
  );

  app.get(
    '/flows/api/flows/:id/revisions/:revision',
    {
      schema: {
        tags,
        operationId: 'getRevision',
        summary: 'One revision with its manifest',
        params: z.object({ id: guid(), revision: positiveNumber() }),
        querystring: NO_QUERY,
        response: { 200: oneSchema, ...REFUSALS, 404: errorSchema },
      },
    },
    async ({ params }) => {
      const { snapshot, createdAt, ...record } = await findRevision(params.id, params.revision, services);
      return { ...record, createdAt: isoTime(createdAt), manifest: shownSnapshot(snapshot) };
    },
  );

  app.get(
    '/flows/api/flows/:id/revisions/:from/diff/:to',
    {
      schema: {
        tags,
        operationId: 'diffRevisions',
        summary: 'Where two revisions differ',
        params: z.object({
          id: guid(),
          from: positiveNumber().describe('Revision to start from.'),
          to: positiveNumber().describe('Revision to compare it with.'),
        }),
        querystring: NO_QUERY,
        response: { 200: diffSchema, ...REFUSALS, 404: errorSchema },
      },
    },
    async ({ params: { id: flowId, from, to } }) => {
      const before = await findRevision(flowId, from, services);
      const after = await findRevision(flowId, to, services);
      return {
        flowId,
        from,
        to,
        differences: [...diffSnapshots(shownSnapshot(before.snapshot), shownSnapshot(after.snapshot))],
      };
    },
  );
};

async function findRevision(flowId: string, revision: number, { store }: DashboardServices): Promise<RevisionRecord> {
  const found = await store.findRevision(flowId, revision);
  if (found !== undefined) return found;
  if ((await store.findFlow(flowId)) === undefined) throw unknownId('flow', flowId);
  throw new HttpError(404, `The flow ${flowId} has no revision ${revision}`, 'unknown_revision');
}

function revisionView({ createdAt, findings, overrides, ...rest }: RevisionSummary): z.output<typeof revisionSchema> {
  return { ...rest, createdAt: isoTime(createdAt), findings: findings.map(findingView), overrides: [...overrides] };
}
