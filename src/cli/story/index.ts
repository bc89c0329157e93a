export { createStoryTeller, type Story, type StoryItem, type StoryTeller } from "./story.ts";
export { storyLines } from "./story-lines.ts";
