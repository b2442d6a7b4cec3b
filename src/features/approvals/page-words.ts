/** Names of the actions in the activity list. */
export const actions = { answerByLink: 'Answer by a link' };
