import type { Severity } from '../../model/attention.ts';
import type { Json } from '../../model/json.ts';
import { printableLines } from '../../model/text.ts';
import type { Change } from './alert-plan.ts';

/** The facts of an alert for a program. */
export interface AlertFacts {
  readonly status: 'firing' | 'resolved';
  readonly severity: Severity;
  readonly flow: { readonly id: string; readonly name: string } | null;
  readonly trigger: string | null;
  readonly kind: string;
  /** When it fired, ISO 8601. */
  readonly since: string;
  /** The same in all messages about one cause. */
  readonly dedupKey: string;
}

/** The content of one message to a target. */
export interface AlertMessage {
  /** One line that says everything, or how much there is. */
  readonly text: string;
  /** Where to look, as an absolute URL. */
  readonly link?: string | null | undefined;
  readonly lines: readonly { readonly text: string; readonly link?: string | null | undefined }[];
  /** Number of alerts without a line. */
  readonly more: number;
  /** Only in a message to a program, which is about one alert; absent if a step of a flow sends the message. */
  readonly alert?: AlertFacts | undefined;
}

export function factsOf({ status, kind, severity, flow, trigger, since, key }: Change): AlertFacts {
  return { status, kind, severity, flow, trigger, since: new Date(since).toISOString(), dedupKey: key };
}

/** The whole alert in one line, for people: times are in the service's time zone. Ids and codes are in the link. */
export function lineOf({ status, severity, text, flow, trigger, since }: Change, now: number): string {
  const flowName = flow === null ? [] : [trigger === null ? flow.name : `${flow.name}/${trigger}`];
  const place = [...flowName, `since ${new Date(since).toISOString()}`].join(', ');
  return inLocalTime(`${status} ${severity}: ${text} (${place})`, now);
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', timeZoneName: 'short' });
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });

/** Adds the day unless it is today. */
function inLocalTime(text: string, now: number): string {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d(?::[\d.]+)?Z/g, (time) => {
    const at = Date.parse(time);
    return day.format(at) === day.format(now) ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`;
  });
}

/** The message for people, without characters that could control the display. */
export function printableMessage(message: AlertMessage): AlertMessage {
  const lines = message.lines.map((line) => ({ ...line, text: printableLines(line.text) }));
  return { ...message, text: printableLines(message.text), lines };
}

/** Discord takes 2000 characters: discord.com/developers/docs/resources/webhook#execute-webhook, read 2026-11. */
const DISCORD_CHARACTERS = 2000;
/** Enough to say what happened: Slack cuts a text after 40 000 characters, and a card of Teams may have 28 KB. */
const MOST_CHARACTERS = 8000;

/** The text of a message, a line for each thing; `linked` writes a link in the reader's syntax. */
export function plainText(
  { text, link, lines, more }: AlertMessage,
  { escaped = same, linked = (url: string) => ` ${url}`, most = MOST_CHARACTERS } = {},
): string {
  const rows = [
    `${escaped(text)}${link == null ? '' : linked(link)}`,
    ...lines.map((line) => `• ${escaped(line.text)}${line.link == null ? '' : linked(line.link)}`),
    ...(more > 0 ? [`… and ${more} more`] : []),
  ];
  return cut(rows.join('\n'), most);
}

const same = (text: string): string => text;

/** Shortens a text to at most so many characters. */
export function cut(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1).replace(/\p{Surrogate}$/u, '')}…`;
}

/** The body of a request to a chat. */
export function chatBody(type: 'slack' | 'teams' | 'discord', message: AlertMessage): Json {
  if (type === 'slack')
    return { text: plainText(message, { escaped: escapeSlack, linked: (url) => ` <${url}|open>` }) };
  if (type === 'discord') {
    // A name in an error message must not notify anybody.
    const content = plainText(message, { escaped: escapeMarkdown, most: DISCORD_CHARACTERS });
    return { content, allowed_mentions: { parse: [] } };
  }
  return teamsBody(message);
}

/** docs.slack.dev/messaging/formatting-message-text, read 2026-11 */
function escapeSlack(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function escapeMarkdown(text: string): string {
  return text.replace(/[\\`*_~|<>[\]#]/g, '\\$&');
}

/** A workflow "When a Teams webhook request is received" accepts only a message of Adaptive Cards. */
function teamsBody(message: AlertMessage): Json {
  const block = (text: string, more: { [key: string]: Json } = {}) => ({
    type: 'TextBlock',
    text: cut(text, 1000),
    wrap: true,
    ...more,
  });
  const linked = ({ text, link }: AlertMessage['lines'][number]) =>
    `- ${escapeMarkdown(text)}${link == null ? '' : ` [open](${link})`}`;
  return {
    type: 'message',
    attachments: [
      {
        contentType: 'application/vnd.microsoft.card.adaptive',
        contentUrl: null,
        content: {
          $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
          type: 'AdaptiveCard',
          version: '1.4',
          body: [
            block(escapeMarkdown(message.text), { weight: 'Bolder' }),
            ...message.lines.map((line) => block(linked(line))),
            ...(message.more > 0 ? [block(`… and ${message.more} more`)] : []),
          ],
          actions: message.link == null ? [] : [{ type: 'Action.OpenUrl', title: 'Open', url: message.link }],
        },
      },
    ],
  };
}

/** The body for a program; `at` is milliseconds since the Unix epoch. */
export function jsonBody(
  { text, link, lines, more, alert }: AlertMessage,
  { at, service }: { readonly at: number; readonly service: string },
): Json {
  return {
    type: 'sluice.alert',
    timestamp: new Date(at).toISOString(),
    data: {
      service,
      ...alert,
      text,
      link: link ?? null,
      lines: lines.map((line) => ({ text: line.text, link: line.link ?? null })),
      more,
    },
  };
}
