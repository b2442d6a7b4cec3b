import type { Severity } from '../../model/attention.ts';
import type { Json } from '../../model/json.ts';
import { type AlertFacts, type AlertMessage, cut } from './message.ts';
import type { AlertTarget } from './targets.ts';

type Pager = Extract<AlertTarget, { type: 'pagerduty' | 'opsgenie' }>;

interface Paged {
  readonly message: AlertMessage;
  readonly service: string;
  /** Identifies the message of a flow's step, which is not an alert. */
  readonly id: string;
}

/** The request that opens or closes an incident for an alert. */
interface PagerRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Json;
}

type Paging = Pick<AlertFacts, 'status' | 'severity' | 'dedupKey'> & Partial<AlertFacts>;

export function pagerRequest(target: Pager, { message, service, id }: Paged): PagerRequest {
  const alert: Paging = message.alert ?? { status: 'firing', severity: 'error', dedupKey: id };
  const paged = { message, service, alert };
  return target.type === 'pagerduty' ? pagerDutyEvent(target, paged) : opsgenieRequest(target, paged);
}

type Parts = Omit<Paged, 'id'> & { readonly alert: Paging };

/** Events API v2: developer.pagerduty.com/docs/events-api-v2/trigger-events, read 2026-11. */
function pagerDutyEvent({ url, routingKey }: Extract<Pager, { type: 'pagerduty' }>, parts: Parts): PagerRequest {
  const { message, service, alert } = parts;
  const { status, severity, dedupKey, kind, flow, trigger, since } = alert;
  const event = { routing_key: routingKey, dedup_key: cut(dedupKey, 255) };
  if (status === 'resolved') return { url, headers: {}, body: { ...event, event_action: 'resolve' } };
  const payload = {
    summary: cut(`${service}: ${message.text}`, 1024),
    source: service,
    severity,
    ...(since !== undefined && { timestamp: since }),
    ...(flow && { component: flow.name }),
    ...(trigger && { group: trigger }),
    ...(kind !== undefined && { class: kind }),
    custom_details: { service, ...alert, lines: linesOf(message) },
  };
  const links = message.link == null ? [] : [{ href: message.link, text: 'Open in Sluice' }];
  return { url, headers: {}, body: { ...event, event_action: 'trigger', client: 'Sluice', payload, links } };
}

const PRIORITY: Readonly<Record<Severity, string>> = { error: 'P1', warning: 'P3', info: 'P5' };

/** Alert API, which Jira Service Management accepts too: docs.opsgenie.com/docs/alert-api, read 2026-11. */
function opsgenieRequest({ url, apiKey }: Extract<Pager, { type: 'opsgenie' }>, parts: Parts): PagerRequest {
  const { message, service, alert } = parts;
  const headers = { authorization: `GenieKey ${apiKey}` };
  const alias = cut(alert.dedupKey, 512);
  if (alert.status === 'resolved') {
    const close = `${url}/${encodeURIComponent(alias)}/close?identifierType=alias`;
    return { url: close, headers, body: { source: service, note: cut(message.text, 1000) } };
  }
  const { kind, flow, trigger, since } = alert;
  const place = flow == null ? '' : trigger == null ? flow.name : `${flow.name}/${trigger}`;
  const description = [
    message.text,
    ...(message.link == null ? [] : [message.link]),
    ...linesOf(message),
    ...[kind, place, since].filter((each) => each !== undefined && each !== ''),
  ].join('\n');
  const body = {
    message: cut(`${service}: ${message.text}`, 130),
    alias,
    description: cut(description, 15_000),
    ...(place !== '' && { entity: place }),
    source: service,
    priority: PRIORITY[alert.severity],
    tags: [alert.severity, ...(kind === undefined ? [] : [kind])],
  };
  return { url, headers, body };
}

function linesOf({ lines, more }: AlertMessage): string[] {
  const shown = lines.map(({ text, link }) => (link == null ? text : `${text} ${link}`));
  return more > 0 ? [...shown, `… and ${more} more`] : shown;
}
