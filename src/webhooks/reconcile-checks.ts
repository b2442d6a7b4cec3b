import { errorAt, gateWarningAt, type Problem, warningAt } from '../manifest/issues.ts';
import { RECONCILE_RULES } from '../manifest/reconcile.ts';
import type { WebhookTrigger } from '../manifest/webhook-inputs.ts';
import { DAY_MS } from '../model/clock.ts';
import { durationMs } from '../model/duration.ts';
import type { EnforcementMode } from '../model/manifest.ts';
import type { ResolvedScheme } from './schemes/resolve.ts';
import { eventIdentityOf } from './trigger-expressions.ts';

/** What is wrong with where a trigger's publisher is asked, and what it opens. */
export function reconcileProblems(
  trigger: WebhookTrigger,
  scheme: ResolvedScheme | undefined,
  mode: EnforcementMode,
): Problem[] {
  const { reconcile, triggerKey, inputs } = trigger;
  if (reconcile === undefined) return [];
  const at = (...path: string[]) => ['triggers', triggerKey, 'reconcile', ...path];
  const problems: Problem[] = [];
  const identity = eventIdentityOf(trigger, scheme);
  const [everyMs = 0, lookbackMs = 0] = [durationMs(reconcile.every), durationMs(reconcile.lookback)];
  if (identity === undefined) {
    const why = 'needs webhookEventId: else a late original of what was fetched would start a second run';
    problems.push(errorAt(at(), why));
  } else if (identity.days * DAY_MS < lookbackMs) {
    const kept = `an event is known for ${identity.days} days (webhookEventIdDays)`;
    problems.push(errorAt(at('lookback'), `is ${reconcile.lookback}, but ${kept}: it would be fetched again`));
  }
  if (everyMs > lookbackMs) {
    const missed = 'what is sent in between and lost is never looked for';
    problems.push(
      errorAt(at('lookback'), `is ${reconcile.lookback}, shorter than every, ${reconcile.every}: ${missed}`),
    );
  }
  // Whether the others know the event is not asked: they may have accepted it before.
  if (inputs.webhookShared === true) problems.push(errorAt(at(), 'is not accepted together with webhookShared'));
  if (reconcile.acceptUnsigned === true && scheme === undefined) {
    problems.push(
      warningAt(at('acceptUnsigned'), 'has no effect: no scheme is named, so that nothing is verified anyway'),
    );
  } else if (reconcile.acceptUnsigned === true && mode === 'Enforce') {
    const open = 'takes what the log holds although no signature can be verified: whoever can write there starts runs';
    problems.push(gateWarningAt(at('acceptUnsigned'), open));
  }
  const { isUnsigned } = RECONCILE_RULES[reconcile.from];
  if (isUnsigned === true && reconcile.acceptUnsigned !== true && scheme !== undefined && mode === 'Enforce') {
    const none = `is not set: the log of ${reconcile.from} holds no signatures, so all that is fetched is refused, and only told`;
    problems.push(warningAt(at('acceptUnsigned'), none));
  }
  for (const field of ['baseUrl', 'loginUrl', 'url']) {
    const url: unknown = Reflect.get(reconcile, field);
    if (typeof url !== 'string' || !/^http:/i.test(url)) continue;
    const open = 'is not https: whoever is on the way reads the secrets of reconcile and writes the answers';
    problems.push(gateWarningAt(at(field), open));
  }
  return problems;
}
