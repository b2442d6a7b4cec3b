import { provenActorOf } from '../../dashboard/actors.ts';
import { type DashboardServices, servicePart } from '../../dashboard/services.ts';
import type { AccessRecord } from '../../dashboard/way-in.ts';
import { HttpError } from '../../errors.ts';
import { logEvent } from '../../telemetry/events.ts';
import { senderOf } from '../../webhooks/read-delivery.ts';

/** Limit for entries by strangers and mistakes: a flood must not fill the database or hide others. All are logged. */
const LISTED_AN_HOUR = 60;
const HOUR_MS = 3_600_000;

/** Codes of refusals by which a party was denied an action. */
const DENIALS: ReadonlySet<string | undefined> = new Set([
  'built_in_flow',
  'insufficient_scope',
  'limited_to_flows',
  'cross_site',
  'host_not_allowed',
  'proxy_not_allowed',
]);

type Services = Pick<
  DashboardServices,
  'activity' | 'clock' | 'newId' | 'logger' | 'metrics' | 'senderAddress' | 'logins'
>;

interface Entry {
  readonly action: 'logIn' | 'logOut' | 'denyAccess';
  readonly actor: string;
  readonly clientIp: string;
  readonly statusCode: number;
  readonly details?: Readonly<Record<string, string>>;
}

function createAccessRecord(services: Services): AccessRecord {
  const { activity, clock, newId, logger, metrics, senderAddress } = services;
  const wrongLogins = hourlyBound(clock);
  const denials = hourlyBound(clock);
  const nobody = services.logins === undefined ? 'anyone' : 'unknown';
  const keep = async ({ statusCode, details = {}, ...entry }: Entry) => {
    const id = newId();
    await activity.begin({ id, at: clock.now(), target: null, reason: null, details, ...entry });
    await activity.end({ id, statusCode });
  };
  const keepWithin = async (bound: ReturnType<typeof hourlyBound>, { details, ...entry }: Entry) => {
    const unlisted = bound();
    if (unlisted === undefined) return;
    try {
      await keep({ ...entry, details: { ...details, ...(unlisted > 0 && { unlisted: String(unlisted) }) } });
    } catch (error) {
      // The answer is a refusal either way, and the log has the event.
      logger.warn({ err: error, action: entry.action }, 'a refusal could not be added to the activity list');
    }
  };
  return {
    async loggedIn(request, { name, credential }) {
      const clientIp = senderOf(request, senderAddress);
      await keep({ action: 'logIn', actor: name, clientIp, statusCode: 303 });
      metrics.logins.inc({ result: 'succeeded' });
      logEvent(logger, 'LoginSucceeded', { actor: name, credential, clientIp });
    },
    async loggedOut(request, { name }) {
      const clientIp = senderOf(request, senderAddress);
      await keep({ action: 'logOut', actor: name, clientIp, statusCode: 303 });
      logEvent(logger, 'LoggedOut', { actor: name, clientIp });
    },
    async wrongLogin(request, { statusCode, account }) {
      const clientIp = senderOf(request, senderAddress);
      metrics.logins.inc({ result: 'failed' });
      logEvent(logger, 'LoginFailed', { account, clientIp, statusCode });
      await keepWithin(wrongLogins, { action: 'logIn', actor: nobody, clientIp, statusCode, details: { account } });
    },
    async denied(request, error) {
      if (!(error instanceof HttpError) || error.reason === undefined || !DENIALS.has(error.reason)) return;
      const clientIp = senderOf(request, senderAddress);
      const { url = '', schema } = request.routeOptions;
      const actor = provenActorOf(request)?.name ?? nobody;
      const details = { operation: schema?.operationId ?? `${request.method} ${url}`, because: error.reason };
      logEvent(logger, 'AccessDenied', { actor, clientIp, operation: details.operation, reason: error.reason });
      await keepWithin(denials, { action: 'denyAccess', actor, clientIp, statusCode: error.statusCode, details });
    },
  };
}

/** Yields, for each entry that can be listed, how many before it could not; undefined for one that cannot. */
function hourlyBound(clock: Services['clock']): () => number | undefined {
  let hour = Number.NaN;
  let listed = 0;
  let unlisted = 0;
  return () => {
    const now = Math.floor(clock.monotonic() / HOUR_MS);
    if (now !== hour) [hour, listed] = [now, 0];
    if (listed === LISTED_AN_HOUR) {
      unlisted += 1;
      return undefined;
    }
    listed += 1;
    const left = unlisted;
    unlisted = 0;
    return left;
  };
}

export const accessRecord = servicePart({ name: 'access-record', accessRecord: createAccessRecord });
