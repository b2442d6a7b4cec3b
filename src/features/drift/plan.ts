import type { PlanCheck } from '../../deploys/plan-check.ts';
import { formatPath, type OpenPath } from '../../expressions/json-path.ts';
import { declaredBy, parseBody } from '../../expressions/trigger-body.ts';
import { prepareRevision } from '../../flows/prepared-revision.ts';
import { type ManifestIssue, nearestName } from '../../manifest/issues.ts';
import { FIRST_ID, LAST_ID } from '../../model/delivery-ids.ts';
import { typeAt } from './payload-paths.ts';
import { joined, keyReads, type PayloadRead, stepReads } from './payload-reads.ts';
import { driftStore } from './store.ts';

/** Fewer deliveries may all be of another kind, such as the test that a publisher sends first. */
const FEWEST = 5;
const MOST = 100;
const MOST_BYTES = 4 * 1024 * 1024;

/**
 * Warns of paths that a flow reads but that none of its newest stored deliveries had. For a path that only some runs
 * read, it warns only if it looks like a typo: a similar path exists.
 */
export const driftPlan: PlanCheck = async (loaded, store) => {
  const { manifest, source, webhooks, file } = loaded;
  const flow = { loaded, prepared: prepareRevision(manifest, source, loaded.files) };
  const payloads: unknown[] = [];
  for (const { triggerKey } of webhooks) {
    const query = {
      flowId: manifest.id,
      triggerKey,
      after: FIRST_ID,
      upTo: LAST_ID,
      limit: MOST,
      maxBytes: MOST_BYTES,
    };
    for (const { headers, body, contentType } of (await store.of(driftStore).sampleDeliveries(query)).samples) {
      const parsed = body === null ? undefined : parseBody(body, declaredBy({ contentType, headers }), 'doubles');
      if (parsed !== undefined && 'value' in parsed) payloads.push({ body: parsed.value, headers });
    }
  }
  if (payloads.length < FEWEST) return [];
  return joined([...webhooks.flatMap(keyReads), ...stepReads(flow)]).flatMap((read): ManifestIssue[] => {
    const types = payloads.map((payload) => typeAt(payload, read.path)).filter((type) => type !== undefined);
    if (types.length === 0 || types.some((type) => type !== 'absent')) return [];
    const meant = similarPath(read, payloads);
    if (read.use !== 'required' && meant === undefined) return [];
    const hint = meant === undefined ? '' : `; did you mean ${meant}?`;
    const message = `reads ${read.text}, which none of the ${types.length} newest deliveries had${hint}`;
    return [{ severity: 'warning', file, path: read.at, message }];
  });
};

/** The path with its first unknown key replaced by a similar known one, if the whole path exists then. */
function similarPath({ path }: PayloadRead, payloads: readonly unknown[]): string | undefined {
  const isThere = (each: OpenPath) => payloads.some((payload) => !NOWHERE.has(typeAt(payload, each)));
  const at = path.findIndex((_key, index) => !isThere(path.slice(0, index + 1)));
  const wrong = path[at];
  if (typeof wrong !== 'string') return undefined;
  const names = new Set(payloads.flatMap((payload) => keysAt(payload, path.slice(0, at))));
  const meant = nearestName(wrong, names);
  if (meant === undefined) return undefined;
  const corrected = path.with(at, meant);
  return isThere(corrected) ? formatPath(corrected) : undefined;
}

const NOWHERE: ReadonlySet<unknown> = new Set(['absent', undefined]);

/** For a list, the keys of its first items. */
function keysAt(value: unknown, path: OpenPath): string[] {
  const [key, ...rest] = path;
  if (path.length === 0) return isObject(value) ? Object.keys(value) : [];
  if (key === null) return Array.isArray(value) ? value.slice(0, 10).flatMap((item) => keysAt(item, rest)) : [];
  const owned = typeof value === 'object' && value !== null && key !== undefined && Object.hasOwn(value, key);
  return owned ? keysAt(Reflect.get(value, key), rest) : [];
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
