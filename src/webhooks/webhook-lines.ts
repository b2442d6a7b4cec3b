import { isOfBody } from '../expressions/context.ts';
import { compileEventId } from '../expressions/delivery-expressions.ts';
import { missingKey, stateOf } from './learned-keys.ts';
import { CAPTURED, GRADES } from './schemes/spec.ts';
import { type PreparedTrigger, pathOfWebhook, type TriggerTable } from './triggers.ts';

/** Further webhooks are only counted; the page lists all. */
const MAX_LISTED = 20;

/** The lines that a start and `check` print: each webhook's URL, what its deliveries sign, and what is not enforced. */
export function webhookLines(table: TriggerTable, baseUrl: string): string[] {
  const webhooks = table.list();
  const more = webhooks.length - MAX_LISTED;
  const listed = webhooks.slice(0, MAX_LISTED).map((webhook) => webhookLine(webhook, table, baseUrl));
  const grades = GRADES.filter((grade) => webhooks.some((webhook) => webhook.grade === grade));
  return [
    ...(webhooks.length === 0 ? [] : ['Webhooks:', ...listed]),
    ...(more > 0 ? [`  and ${more} more, listed on the page`] : []),
    ...grades.map((grade) => `  Coverage ${grade}: ${CAPTURED[grade]}`),
    ...enforcementSummary(webhooks),
  ];
}

function webhookLine(webhook: PreparedTrigger, table: TriggerTable, baseUrl: string): string {
  const { trigger, schemeName, mode, grade } = webhook;
  const path = pathOfWebhook(webhook, table);
  const url = path === null ? 'no URL, because it has no webhookSlug' : `${baseUrl}${path}`;
  const coverage = grade === null ? '' : `, coverage ${grade}`;
  return `  ${trigger.flowName}: ${url} (${schemeName ?? 'no signature scheme'}, ${mode}${coverage})`;
}

/** Lines about triggers that are not enforced, learned keys, shared keys, and triggers with one run per event. */
export function enforcementSummary(triggers: readonly PreparedTrigger[]): string[] {
  if (triggers.length === 0) return ['There are no webhook triggers'];
  const further = [...learnedSummary(triggers), ...sharedKeySummary(triggers), ...eventSummary(triggers)];
  const open = triggers
    .map((trigger) => ({ trigger, why: whyNotEnforced(trigger) }))
    .filter(({ why }) => why.length > 0);
  if (open.length === 0) return [`All webhook triggers are enforced (${triggers.length})`, ...further];
  const named = open.map(
    ({ trigger: { trigger }, why }) => `${trigger.flowName}/${trigger.triggerKey}: ${why.join(', ')}`,
  );
  return [
    `Webhook triggers that are not enforced (${open.length} of ${triggers.length}): ${named.join('; ')}`,
    ...further,
  ];
}

/** Triggers that trust a key that no manifest shows. */
function learnedSummary(triggers: readonly PreparedTrigger[]): string[] {
  const learned = triggers.filter(({ keySlot }) => keySlot?.isInUse === true && stateOf(keySlot) === 'learned');
  const named = learned.map(({ trigger, schemeName }) => `${trigger.flowName}/${trigger.triggerKey} (${schemeName})`);
  return named.length === 0 ? [] : [`Keys learned in a handshake: ${named.join(', ')}`];
}

/** Triggers that start one run for each event, and the id that they use. */
function eventSummary(triggers: readonly PreparedTrigger[]): string[] {
  const named = triggers.flatMap(({ trigger, eventIdentity }) =>
    eventIdentity === undefined ? [] : [`${trigger.flowName}/${trigger.triggerKey} (${eventIdentity.expression})`],
  );
  const mayMix = triggers.some(({ eventIdentity }) => eventIdentity?.by === 'trigger' && isOfAnyType(eventIdentity));
  const more = mayMix ? '; a number and a text with the same digits are one id' : '';
  return named.length === 0 ? [] : [`One run for each event, by its id: ${named.join(', ')}${more}`];
}

/** Whether the id may be a number or a text: only an id from the body, because headers are text. */
function isOfAnyType(identity: { readonly expression: string }): boolean {
  const compiled = compileEventId(identity.expression);
  return (
    typeof compiled === 'object' && compiled.expression.type === 'dyn' && [...compiled.expression.roots].some(isOfBody)
  );
}

/**
 * Nonces belong to one trigger: a delivery captured at one passes once at another with the same key, unless the scheme
 * signs the URL.
 */
function sharedKeySummary(triggers: readonly PreparedTrigger[]): string[] {
  const groups = new Map<string, string[]>();
  for (const { trigger, schemeName, mayReadQuery, keys } of triggers) {
    if (schemeName === null || mayReadQuery || keys.current === undefined) continue;
    for (const key of [keys.current, ...(keys.others ?? [])]) {
      const group = JSON.stringify([schemeName, key]);
      groups.set(group, [...(groups.get(group) ?? []), `${trigger.flowName}/${trigger.triggerKey}`]);
    }
  }
  const shared = [...groups.values()].filter((names) => names.length > 1).map((names) => names.join(' and '));
  if (shared.length === 0) return [];
  const consequence = 'a delivery captured at one of them is valid once at each of the others';
  return [`Webhook triggers that share a key: ${shared.join('; ')}; ${consequence}`];
}

/** Empty if the trigger refuses deliveries that it cannot verify. */
function whyNotEnforced({ trigger, mode, schemeName, lacksKey, keySlot }: PreparedTrigger): string[] {
  const named = trigger.inputs.webhookSignatureScheme;
  const why: string[] = [];
  if (mode !== 'Enforce') why.push(`mode ${mode}`);
  if (schemeName === null) why.push(named === undefined ? 'no signature scheme' : `unrecognised scheme "${named}"`);
  if (lacksKey) why.push(missingKey(keySlot));
  return why;
}
