import { type ComponentChild, type ComponentType, type FunctionComponent, h } from 'preact';
import type { Api } from './api-types.ts';
import type { Column } from './kit/list.tsx';
import type { Choice } from './kit/overlays.tsx';
import type { Look } from './looks.ts';

/** A part of the page: a screen of the kernel, or a feature's additions. `features/page.ts` lists the parts. */
export interface PagePart {
  readonly name: string;
  readonly routes?: readonly Route[];
  readonly place?: Place;
  /** Components that it shows on other screens. */
  readonly at?: { readonly [Slot in keyof Slots]?: FunctionComponent<Slots[Slot]> | undefined };
  /** Views of a flow. */
  readonly flowViews?: readonly FlowView[];
  /** Further columns of the list of flows. */
  readonly useFlowColumns?: () => readonly Column<Api['Flow']>[];
  readonly whileClosed?: WhileClosed;
  /** Names of its operations in the activity. */
  readonly actions?: Readonly<Record<string, string>>;
}

interface Route {
  readonly path: string;
  readonly page: ComponentType<{ params: Readonly<Record<string, string>> }>;
  /** Title of the browser's tab until the page sets its own. */
  readonly title: string;
  /** The first API path that the page will request, by the query of its address. */
  readonly question?: (query: URLSearchParams) => string;
}

/** A screen that the key opens after `g`. */
interface Place {
  readonly text: string;
  readonly href: string;
  readonly key: string;
  /** Icon in the navigation; if absent, only the key opens the place. */
  readonly icon?: Look['icon'];
  /** Only for readers who see the whole service. */
  readonly isOfService?: boolean;
}

/** Choices for deliveries to a closed flow. Only one part can provide them. */
interface WhileClosed {
  /** Undefined if there is no choice. `until` is the operation by which the flow starts runs again. */
  choice(triggers: Api['Flow']['triggers'], until: 'enable' | 'resume'): Choice | undefined;
  /** The request fields of a choice. */
  said(chosen: string | undefined): object;
}

/** Places where parts show something on other screens, and their properties. */
interface Slots {
  /** Above every screen. */
  readonly everywhere: object;
  /** Among the buttons at the top of every screen. */
  readonly topBar: object;
  readonly overviewTools: object;
  readonly overviewTop: object;
  readonly overviewColumns: object;
  /** At the bottom of the overview. */
  readonly overview: object;
  readonly deliveriesTools: { readonly flows: readonly Api['Flow'][] };
  readonly deliveriesChart: object;
  readonly deliveryTools: {
    readonly id: string;
    /** Undefined until it is loaded. */
    readonly delivery: Api['DeliveryDetail'] | undefined;
    readonly refresh: () => void;
  };
  readonly runsTools: object;
  readonly runsChart: object;
  readonly flowsTools: object;
  readonly flowBadges: { readonly flow: Api['Flow'] };
  readonly flowTools: { readonly flow: Api['Flow'] };
  /** Among an operator's actions on a flow. */
  readonly flowActions: { readonly flow: Api['Flow']; readonly refresh: () => void };
  readonly flowRuns: { readonly flowId: string };
  /** Below the name of a trigger, on the page of its flow. */
  readonly trigger: { readonly trigger: Api['Flow']['triggers'][number] };
  /** After the name of a webhook. */
  readonly webhook: { readonly idOrSlug: string };
  /** Below the preview of a manifest's deploy. */
  readonly deploy: { readonly text: string; readonly isReady: boolean };
}

export interface FlowView {
  readonly value: string;
  readonly text: string;
  /** Only for flows with webhooks. */
  readonly isOfWebhooks?: boolean;
  readonly view: FunctionComponent<{ readonly flow: Api['FlowDetail']; readonly refresh: () => void }>;
}

let parts: readonly PagePart[] = [];

/** Called once, before anything is shown: no screen of the kernel imports a feature. */
export function handIn(all: readonly PagePart[]): void {
  parts = all;
}

/** The components of all parts for this place, in their order. */
export function shownAt<Slot extends keyof Slots>(slot: Slot, props: Slots[Slot]): ComponentChild[] {
  return parts.flatMap(({ name, at }) => {
    const shown = at?.[slot];
    return shown === undefined ? [] : [h(shown, { ...props, key: name })];
  });
}

/** All routes, those without a parameter first: `/flows/flows/new` must not match `/flows/flows/:id`. */
export function allRoutes(): readonly Route[] {
  const routes = parts.flatMap((part) => part.routes ?? []);
  return [...routes.filter(({ path }) => !path.includes(':')), ...routes.filter(({ path }) => path.includes(':'))];
}

export function allPlaces(): readonly Place[] {
  return parts.flatMap(({ place }) => place ?? []);
}

export function allFlowViews(): readonly FlowView[] {
  return parts.flatMap(({ flowViews = [] }) => flowViews);
}

export const whileClosed = (): WhileClosed | undefined => parts.flatMap((part) => part.whileClosed ?? [])[0];

export const useFlowColumns = () => parts.flatMap((part) => part.useFlowColumns?.() ?? []);

export function allActions(): Readonly<Record<string, string>> {
  return Object.assign({}, ...parts.map(({ actions }) => actions));
}
